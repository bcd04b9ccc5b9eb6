/// What a sequence has said so far, as the penalties see it, and what they do to its logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/sampling_params.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// Counts of each token. 9 bytes per token of the vocabulary (1.2 MB at 129,280), all reserved at
/// construction.
class TokenHistory {
 public:
  explicit TokenHistory(std::int32_t vocab_size);

  /// Ids of the vocabulary. The prompt counts for the repetition penalty alone, the output for all three.
  void observe_prompt(std::span<const TokenId> ids);
  void observe_output(TokenId id);

  /// For each token seen: its logit, if positive, divided by the repetition penalty, else multiplied; then
  /// minus the frequency penalty times its count in the output; then minus the presence penalty if that count
  /// is not 0. A finite logit stays finite, -infinity stays. Touches the seen tokens only.
  void penalise(const SamplingParams& params, std::span<float> logits) const;

 private:
  void see(TokenId id);

  std::vector<std::int32_t> output_counts_;  // by id
  std::vector<bool> is_seen_;                // by id
  std::vector<TokenId> seen_;                // each once, in order of first appearance
};

/// `value` as a float, held to the finite range: an overflow must not turn a strange penalty into a failure.
[[nodiscard]] float finite_logit(double value);

}  // namespace baleen
