/// The text of an argument as JSON of its declared type.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat/python_json.h"

namespace baleen {

/// The one way to read `text` as JSON that fits `schema`, strings aside: JSON almost right; `+3`, `.5`,
/// `1_000`, `03`, `1,000` where an integer is declared; `True`, `yes`, `off` for a boolean; `None` for null.
/// Nothing when there is none.
[[nodiscard]] std::optional<std::string> json_of_type(std::string_view text, const PythonJson& schema);

}  // namespace baleen
