/// JSON that a model wrote almost right.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat/python_json.h"

namespace baleen {

/// `text` as JSON that every client reads: RFC 8259 without NaN and infinities. Nothing when it is none.
[[nodiscard]] std::optional<PythonJson> read_strict_json(std::string_view text);

/// JSON for a text that is not, where there is only one way to read it: Python's True, False and None; single or
/// typographic quotation marks; keys that are bare words; trailing and missing commas; comments; a code fence around
/// it; all quotation marks escaped; control characters and unknown escapes within strings; brackets missing or too many
/// at the end. Nothing otherwise, nor when nested deeper than `kMaxJsonDepth`. Linear in the text.
[[nodiscard]] std::optional<std::string> repaired_json(std::string_view text);

/// What stands between the lines of a Markdown code fence, if that is all that `text` is; else `text` without white
/// space at its ends.
[[nodiscard]] std::string_view without_code_fence(std::string_view text);

}  // namespace baleen
