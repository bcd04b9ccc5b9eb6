#include "sampling/token_mask.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace baleen {
namespace {

constexpr std::size_t kWordTokens = 64;
constexpr std::uint64_t kAllTokens = ~std::uint64_t{0};

}  // namespace

std::size_t gather_allowed(std::span<const float> logits, std::span<const std::uint64_t> mask,
                           std::span<float> allowed) {
  BALEEN_CHECK_EQ(mask.size(), (logits.size() + kWordTokens - 1) / kWordTokens);
  std::size_t num_allowed = 0;
  for (std::size_t word_idx = 0; word_idx < mask.size(); ++word_idx) {
    const std::size_t first = word_idx * kWordTokens, count = std::min(kWordTokens, logits.size() - first);
    std::uint64_t word = mask[word_idx];
    if (count < kWordTokens) word &= (std::uint64_t{1} << count) - 1;
    // Inside a string nearly all words are full. What is written never overtakes what is read.
    if (word == kAllTokens) {
      std::memmove(allowed.data() + num_allowed, logits.data() + first, count * sizeof(float));
      num_allowed += count;
      continue;
    }
    for (; word != 0; word &= word - 1) {
      allowed[num_allowed++] = logits[first + static_cast<std::size_t>(std::countr_zero(word))];
    }
  }
  return num_allowed;
}

TokenId allowed_token(std::span<const std::uint64_t> mask, std::size_t rank) {
  std::size_t word_idx = 0;
  for (; rank >= static_cast<std::size_t>(std::popcount(mask[word_idx])); ++word_idx) {
    rank -= static_cast<std::size_t>(std::popcount(mask[word_idx]));
  }
  std::uint64_t word = mask[word_idx];
  for (; rank > 0; --rank) word &= word - 1;
  return static_cast<TokenId>(word_idx * kWordTokens + static_cast<std::size_t>(std::countr_zero(word)));
}

}  // namespace baleen
