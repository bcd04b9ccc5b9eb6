/// Losses and gradients of a step's micro-batches, several at a time. Every micro-batch has a gradient of its
/// own, and they are summed in the order of `SumTree`: bits do not depend on how many are computed at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "trainer/ranks/sum_tree.h"
#include "trainer/ranks/training_ranks.h"
#include "trainer/run/loss_function.h"

namespace baleen {

/// All that it names outlives the call.
struct MicroBatchJob {
  const Parameters<float>& weights;
  const PassOptions& options;
  TrainingRanks::Range parts;                            ///< parts of the step that this rank has
  std::function<TrainingBatch(std::int64_t part)> take;  ///< called on several threads at once
  std::function<void(std::int64_t part, const TrainingBatch& batch, const LossReport& report)>
      done;                                ///< one part after the other
  Parameters<float>* gradients = nullptr;  ///< becomes the sum over these parts; null: forward only
};

class MicroBatches {
 public:
  /// One loss for each micro-batch at a time; they share no threads.
  explicit MicroBatches(std::vector<LossFunction> losses);

  /// Rethrows the first error of a loss, `take` or `done`, when no part is being computed any more. Memory:
  /// a loss's activations for each part at a time; gradients as often, and log2(parts) times more.
  void run(const MicroBatchJob& job);

 private:
  using Gradients = Parameters<float>;
  class Order;
  void work(const MicroBatchJob& job, std::size_t worker, Order& order);
  /// One that nothing is summed in, of the job's table.
  Gradients* take_free(const MicroBatchJob& job);
  void give_back(Gradients* gradients);

  std::vector<LossFunction> losses_;
  std::mutex mutex_;  ///< guards the next two
  std::vector<std::unique_ptr<Gradients>> own_;
  std::vector<Gradients*> free_;
  SumTree<Gradients*> sums_;  ///< used by the worker whose part's turn it is
};

}  // namespace baleen
