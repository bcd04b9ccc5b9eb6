/// The attributes of a tag, as a model may write them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baleen {

struct Markup;

/// From `at`, right after the tag's name, up to and over its `>`; where that is missing, up to the end of the last
/// attribute. Sets the tag's name, `is_string` and what says how it ended.
void read_attributes(std::string_view text, std::size_t& at, Markup& tag);

/// Letters, digits and underscores at the beginning of `text`.
[[nodiscard]] std::string_view leading_word(std::string_view text);

/// ASCII letters lowered.
[[nodiscard]] std::string lower_case(std::string_view text);

}  // namespace baleen
