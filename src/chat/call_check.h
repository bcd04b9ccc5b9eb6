/// The one door for calls that no grammar enforced: whether a call may be made as it was read.
#pragma once

#include <string>
#include <unordered_set>

#include "chat/python_json.h"

namespace baleen {

/// Whether `arguments` may go to a tool of the schema `parameters` (null: none was given, anything may).
/// As the model wrote them: every required argument is there and of a declared type (null also where the
/// argument may be left out). `is_repaired`: besides, nothing is there that the schema does not name, and all
/// of it fits, inner values and enumerations included: a repair may have read the text in another way than it
/// was meant.
[[nodiscard]] bool may_be_called(const PythonJson& parameters, const PythonJson::Object& arguments,
                                 bool is_repaired);

/// The names in `required` of the schema.
[[nodiscard]] std::unordered_set<std::string> required_parameters(const PythonJson& parameters);

/// Whether `value` fits `schema` by `type`, `enum`, `const`, `properties`, `required`,
/// `additionalProperties`, `items`, `anyOf`, `oneOf` and `allOf`. What other keywords say, references among
/// them, is not looked at.
[[nodiscard]] bool fits_schema(const PythonJson& value, const PythonJson& schema);

}  // namespace baleen
