/// The syntax tree of a pattern.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/char_automaton.h"

namespace baleen {

struct PatternNode {
  enum class Kind : std::uint8_t {
    kClass,     ///< one character of `ranges`
    kSequence,  ///< all of `parts`; none: the empty text
    kChoice,    ///< one of `parts`
    kRepeat,    ///< parts[0], `least` to `most` times
    kBegin,     ///< ^
    kEnd,       ///< $
    kBoundary,  ///< \b, or \B where `least` is 1
  } kind = Kind::kSequence;
  std::vector<CharRange> ranges;  ///< sorted, disjoint
  std::vector<PatternNode> parts;
  std::uint32_t least = 0, most = 0;  ///< most: kNoLimit for no bound
};

inline constexpr std::uint32_t kNoLimit = 0xFFFFFFFF;

/// Sorted, disjoint, without gaps of no width.
[[nodiscard]] std::vector<CharRange> normal_ranges(std::vector<CharRange> ranges);

/// \w
[[nodiscard]] const std::vector<CharRange>& word_characters();

[[nodiscard]] Result<PatternNode> parse_pattern(std::string_view pattern);

}  // namespace baleen
