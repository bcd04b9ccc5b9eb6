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
    kAhead,     ///< where parts[0] can be read next, or cannot where `least` is 1
    kBehind,    ///< where parts[0] was read last, or was not where `least` is 1
  } kind = Kind::kSequence;
  std::vector<CharRange> ranges;  ///< sorted, disjoint
  std::vector<PatternNode> parts;
  std::uint32_t least = 0, most = 0;  ///< most: kNoLimit for no bound
};

inline constexpr std::uint32_t kNoLimit = 0xFFFFFFFF;

/// Sorted, disjoint, without gaps of no width.
[[nodiscard]] std::vector<CharRange> normal_ranges(std::vector<CharRange> ranges);

/// Reads nothing: an anchor, a boundary, a look around.
[[nodiscard]] bool is_assertion(const PatternNode& node);

/// \w
[[nodiscard]] const std::vector<CharRange>& word_characters();

/// The syntax of ECMA 262, and what Python and Rust have beside it: (?P<name>...), (?i), (?s), (?i:...),
/// (?#...), \A, \Z, \z.
[[nodiscard]] Result<PatternNode> parse_pattern(std::string_view pattern);

}  // namespace baleen
