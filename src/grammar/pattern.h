/// Regular expressions of JSON schemas (ECMA 262), the regular part of them.
#pragma once

#include <string_view>

#include "base/error.h"
#include "grammar/text_set.h"

namespace baleen {

/// The texts in which `pattern` is found: anywhere, unless anchored. All of pattern_syntax.h: classes,
/// groups, alternatives, greedy or lazy quantifiers, anchors and \b anywhere, looks ahead and behind. Fails
/// with a sentence on anything else (back references, looks within a look behind) and on what would need
/// more than a few thousand states; takes bounded time whatever the pattern.
[[nodiscard]] Result<TextSet> compile_pattern(std::string_view pattern);

/// Whether it looks ahead or behind, which the strict schemas of the public APIs may not. False for what is
/// no pattern.
[[nodiscard]] bool looks_around(std::string_view pattern);

}  // namespace baleen
