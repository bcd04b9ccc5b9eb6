/// The attributes of a tag, as a model may write them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "chat/spellings.h"

namespace baleen {

struct Markup;

/// From `at` in `plain`, the ASCII spelling of `text`, right after the tag's name, up to and over its `>`;
/// where that is missing, up to the end of the last attribute. Sets the tag's attributes and what says how it
/// ended; names and values are as `text` has them.
void read_attributes(std::string_view text, const PlainText& plain, std::size_t& at, Markup& tag);

/// Whether an attribute of that name may say which tool or parameter it is.
[[nodiscard]] bool names_call_or_parameter(std::string_view attribute);

/// Letters, digits and underscores at the beginning of `text`.
[[nodiscard]] std::string_view leading_word(std::string_view text);

/// ASCII letters lowered.
[[nodiscard]] std::string lower_case(std::string_view text);

}  // namespace baleen
