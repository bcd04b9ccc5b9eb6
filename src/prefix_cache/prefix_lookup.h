/// What was found of a prompt in the prefix cache, and why no more.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/ragged_batch.h"

namespace baleen {

/// Why what is found of a prompt ends where it does.
enum class PrefixEnd : std::uint8_t {
  kOff,          ///< nothing is looked for: no prefix cache, or a prompt whose logprobs are wanted
  kWhole,        ///< every whole page before its last token was found
  kEmpty,        ///< nothing is cached
  kDiffers,      ///< it parts from the nearest cached sequence in the next page
  kEnds,         ///< the nearest cached sequence ends there, and the prompt goes on
  kNoTail,       ///< more of it is cached, but the window rows before its end were not kept
  kTailEvicted,  ///< more of it is cached, but the window rows before its end were evicted
  kEvicted,      ///< the next page was cached, and evicted
};

inline constexpr std::array<std::string_view, 8> kPrefixEndNames = {
    "off", "whole", "empty", "differs", "ends", "no_tail", "tail_evicted", "evicted"};

[[nodiscard]] constexpr std::string_view name_of(PrefixEnd end) {
  return kPrefixEndNames[static_cast<std::size_t>(end)];
}

/// Positions from 0.
struct PrefixLookup {
  PrefixEnd end = PrefixEnd::kOff;
  std::int64_t prompt_tokens = 0;
  std::int64_t found_tokens = 0;  ///< whole pages
  /// The prompt's first token that the nearest cached sequence has not: it has another one there, or ends.
  std::int64_t first_difference = 0;
  std::vector<TokenId> cached_tokens;  ///< tokens of that sequence from there on, a few
  /// Whole pages before the difference that were not found.
  std::int64_t lost_tokens = 0;

  /// Tokens of `cached_tokens` at most.
  static constexpr std::int64_t kMaxCachedTokens = 16;
  bool operator==(const PrefixLookup&) const = default;
};

}  // namespace baleen
