/// Drawing from a part of the vocabulary: the logits of the allowed tokens, side by side in order of id.
/// Everything downstream works on them as on a smaller vocabulary, so a mask of a few tokens makes a choice
/// cheaper, and no row of -infinity is ever looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/ragged_batch.h"

namespace baleen {

/// Copies logits[id] for each bit id of `mask` (bit id % 64 of word id / 64) to the front of `allowed`;
/// returns how many. The mask has a word for every 64 logits; bits beyond the logits are ignored. `allowed`
/// is as long as `logits` and may be the same memory.
std::size_t gather_allowed(std::span<const float> logits, std::span<const std::uint64_t> mask,
                           std::span<float> allowed);

/// The id of the token at `rank` among those allowed. There are more than `rank`.
[[nodiscard]] TokenId allowed_token(std::span<const std::uint64_t> mask, std::size_t rank);

}  // namespace baleen
