/// The beginning of a run and the end of a step, of whatever loss: the weights that a run starts with, and
/// from gradients of the model to new weights.
#pragma once

#include <optional>

#include "parallel/thread_pool.h"
#include "trainer/optimiser/gradient_norm.h"
#include "trainer/ranks/training_ranks.h"
#include "trainer/run/run_checkpoint.h"
#include "trainer/run/run_folder.h"

namespace baleen {

/// Sets `state` to the newest checkpoint of `folder` with `resume`, else to first weights, new or from
/// `config.run.from`. Returns the checkpoint's step; -1: there is none. Throws `Error`: checkpoints without
/// `resume` or none with it, and as reading them does. The first rank says what there is to say.
[[nodiscard]] std::int64_t start_state(const TrainConfig& config, const RunFolder& folder, bool resume,
                                       RunState& state, ThreadPool& pool, bool is_first_rank = true);

/// All arguments but `ranks` outlive it. Holds gradients of the adapters, where the state has some, which one
/// rank alone trains.
class WeightUpdate {
 public:
  WeightUpdate(const TrainConfig& config, RunState& state, ThreadPool& pool, TrainingRanks ranks = {});

  /// Norms of what is trained, from this rank's gradients of the model: its own tensors' become the sums over
  /// all ranks. They are kept until `apply`, which scales them.
  [[nodiscard]] GradientNorms prepare(Parameters<float>& of_model);
  /// Clips, updates, shares, merges adapters. Returns how many matrices were left as they are on any rank
  /// (Optimiser::update).
  std::int64_t apply(const GradientNorms& norms, double learning_rate, UpdateScope scope = {});

 private:
  const TrainConfig& config_;
  RunState& state_;
  ThreadPool& pool_;
  TrainingRanks ranks_;
  std::optional<Parameters<float>> of_factors_;
  Parameters<float>* gradients_ = nullptr;
};

}  // namespace baleen
