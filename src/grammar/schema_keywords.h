/// The vocabulary of JSON Schema: what is a constraint, what merely describes.
#pragma once

#include <string_view>

#include "chat/python_json.h"

namespace baleen {

/// Says something about values, and is understood or refused. All other keywords (title, default, unknown
/// ones) are annotations, as the standard has it.
[[nodiscard]] bool is_constraint(std::string_view keyword);

/// A constraint that cannot be kept by a grammar, or not by this one.
[[nodiscard]] bool is_unsupported(const PythonJson::Member& keyword);

/// Made by merging schemas: an array of the patterns that a string must match besides `pattern`.
inline constexpr std::string_view kMorePatterns = "pattern of allOf";

/// `null` is one of the seven: null boolean integer number string array object.
[[nodiscard]] bool is_type_name(std::string_view name);

/// The types that a schema without `type` speaks of, by its keywords; "" for a keyword of no one type.
[[nodiscard]] std::string_view type_of_keyword(std::string_view keyword);

/// Whether `value` is of that type.
[[nodiscard]] bool has_type(const PythonJson& value, std::string_view type);

/// The pattern of a format that is enforced; "" for all others, which are annotations.
[[nodiscard]] std::string_view format_pattern(std::string_view format);

}  // namespace baleen
