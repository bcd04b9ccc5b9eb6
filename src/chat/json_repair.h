/// JSON that a model wrote almost right.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/python_json.h"

namespace baleen {

/// `text` as JSON that every client reads: RFC 8259 without NaN and infinities. Nothing when it is none.
[[nodiscard]] std::optional<PythonJson> read_strict_json(std::string_view text);

/// What a text that should be JSON can mean, each meaning once: its value if it is JSON; else its repairs.
/// Repaired are Python's True, False and None; single, typographic or escaped quotation marks and `&quot;`;
/// full-width brackets, commas and colons, no-break spaces; keys that are bare words; trailing and missing
/// commas; comments; a code fence around it; control characters within strings; backslashes, where no string
/// has both such as escape and such as do not; brackets missing at the end; one bracket missing or too many
/// anywhere. A caller that knows the schema takes the one that fits, if it is one. Empty: unreadable, or
/// nested deeper than `kMaxJsonDepth`. Linear in the text, but that places of brackets are tried only in
/// texts below 16 KB, 512 of them.
[[nodiscard]] std::vector<PythonJson> json_readings(std::string_view text);

/// The only reading, as JSON.
[[nodiscard]] std::optional<std::string> repaired_json(std::string_view text);

/// What stands between the lines of a Markdown code fence, if that is all that `text` is; else `text` without
/// white space at its ends.
[[nodiscard]] std::string_view without_code_fence(std::string_view text);

}  // namespace baleen
