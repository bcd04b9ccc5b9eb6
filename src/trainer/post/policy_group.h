/// One prompt's sampled replies as a batch to train on.                              (source: training 13)
#pragma once

#include <span>
#include <vector>

#include "trainer/config/train_config.h"
#include "trainer/graph/token_objective.h"
#include "trainer/post/rollout.h"
#include "training_data/batch_sampler.h"

namespace baleen {

/// reward - mean of the group; divided by the standard deviation where `normalise` is set. Equal
/// rewards give zeros, without a rounding error that AdamW would scale up.
[[nodiscard]] std::vector<double> advantages(std::span<const double> rewards, bool normalise);

/// Prompt and reply of each rollout as a document whose targets are the reply. The number of global targets
/// is 1: the weights of `sampled_targets` normalise.
[[nodiscard]] TrainingBatch rollout_batch(std::span<const TokenId> prompt, std::span<const Rollout> rollouts);

/// For the targets of `rollout_batch`, of which `logprobs` and, with beta, `reference_logprobs` are what the
/// trained and the reference policy say now. `num_sequences`: of the whole step. A sequence with a negative
/// advantage whose mean of ln(π_old / π) exceeds `config.mask_threshold` gets an advantage of 0.
struct PolicyTargets {
  std::vector<SampledTarget> targets;
  std::int64_t num_masked = 0;  ///< sequences
};
[[nodiscard]] PolicyTargets sampled_targets(const GrpoConfig& config, std::span<const Rollout> rollouts,
                                            std::span<const double> advantages,
                                            std::span<const double> logprobs,
                                            std::span<const double> reference_logprobs,
                                            std::int64_t num_sequences);

}  // namespace baleen
