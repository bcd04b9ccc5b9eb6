/// The classes of characters that patterns name by Unicode property: \p{L}, \p{Lu}, \p{Script=Greek}.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "grammar/char_automaton.h"

namespace baleen {

/// Sorted, disjoint. Nothing: no property of that name. Looks at every character the first time a name is
/// looked up (some 30 ms), and keeps the last 64 classes. Any thread.
[[nodiscard]] std::optional<std::vector<CharRange>> unicode_class(std::string_view name);

}  // namespace baleen
