/// Regular expressions of JSON schemas (ECMA 262), the regular part of them.
#pragma once

#include <string_view>

#include "base/error.h"
#include "grammar/char_automaton.h"

namespace baleen {

/// The texts in which `pattern` is found: anywhere, unless anchored by ^ and $. Characters, classes, . \d \w \s,
/// groups, alternatives, greedy or lazy quantifiers; ^ and $ only at the ends of the pattern or of its alternatives.
/// Fails with a sentence on anything else (look-around, back references, \b, \p) and on what would need more than
/// kMaxCharStates states; takes bounded time whatever the pattern.
[[nodiscard]] Result<CharAutomaton> compile_pattern(std::string_view pattern);

}  // namespace baleen
