/// The one way into TOML: bounded in nesting before the library sees the text, because it and whoever walks
/// its tables later take stack for every level, and a header `[a.a.a...]` has as many levels as dots.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <string_view>

namespace baleen {

/// Names in one key or header, as in `a.b.c`; a file of a run has two.
inline constexpr std::int64_t kMaxTomlKeyParts = 32;
/// Lists and inline tables inside one another.
inline constexpr std::int64_t kMaxTomlBrackets = 32;

/// The table that all of `text` is. Throws `Error` with `label` and the line: for a key of more parts or
/// values more deeply nested than the bounds, and for what is not TOML. Linear in the text, which is read
/// twice.
[[nodiscard]] toml::table parse_toml(std::string_view text, std::string_view label);

}  // namespace baleen
