/// Losses and gradients of a step's micro-batches, several at a time. Every micro-batch has a gradient of its
/// own, and they are summed in the order of micro-batches: bits do not depend on how many are computed at
/// once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/run/loss_function.h"

namespace baleen {

/// All that it names outlives the call.
struct MicroBatchJob {
  const Parameters<float>& weights;
  const PassOptions& options;
  std::int64_t num_parts = 0;
  std::function<TrainingBatch(std::int64_t part)> take;  ///< called on several threads at once
  std::function<void(const TrainingBatch& batch, const LossReport& report)>
      done;                                ///< one part after the other
  Parameters<float>* gradients = nullptr;  ///< becomes the sum over all parts; null: forward only
};

class MicroBatches {
 public:
  /// One loss for each micro-batch at a time; they share no threads.
  explicit MicroBatches(std::vector<LossFunction> losses);

  /// Rethrows the first error of a loss, `take` or `done`, when no part is being computed any more. Memory:
  /// a loss's activations, and from the second part on gradients, for each part at a time.
  void run(const MicroBatchJob& job);

 private:
  class Order;
  void work(const MicroBatchJob& job, std::size_t worker, Order& order);

  std::vector<LossFunction> losses_;
  std::vector<std::unique_ptr<Parameters<float>>> own_;  ///< of each loss: gradients of one micro-batch
};

}  // namespace baleen
