/// Replies of a policy to a prompt, sampled by the engine.
#pragma once

#include <vector>

#include "engine/step_engine.h"
#include "trainer/config/train_config.h"

namespace baleen {

struct Rollout {
  std::vector<TokenId> tokens;   ///< ids of the reply, the end token included
  std::vector<double> logprobs;  ///< [tokens] of the engine's policy at the sampling temperature
  bool ended = false;            ///< the end token ended it, not the limit
};

/// `config.group_size` replies to `prompt`, decoded side by side; prompts that share whole pages with earlier
/// ones start from the prefix cache. `engine` has room for the group with `config.max_tokens` each. Each
/// reply depends on the policy, the prompt, `seed` and its place alone. Throws `Error` as steps fail.
[[nodiscard]] std::vector<Rollout> sample_group(StepEngine& engine, const RolloutConfig& config,
                                                std::span<const TokenId> prompt, TokenId end_token,
                                                std::uint64_t seed);

}  // namespace baleen
