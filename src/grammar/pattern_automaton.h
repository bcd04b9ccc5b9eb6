/// A pattern as one deterministic automaton over characters.
#pragma once

#include <optional>

#include "grammar/char_automaton.h"
#include "grammar/pattern_syntax.h"

namespace baleen {

/// The texts in which `pattern` is found, or a sentence on what it holds that is not supported or too
/// complex.
[[nodiscard]] Result<CharAutomaton> pattern_automaton(const PatternNode& pattern);

}  // namespace baleen
