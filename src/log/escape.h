/// Text from outside as it can be shown: no commands to a terminal, and as one line where that is wanted.
#pragma once

#include <string>
#include <string_view>

namespace baleen {

/// `\n`, `\r` and `\t` for these three; `\x1B` for other control characters, for bytes that are not UTF-8,
/// and for the bytes of C1 controls, line separators and marks that change the direction of text. All else
/// stays, a backslash too: the result is for reading and not for parsing.
[[nodiscard]] std::string escaped_line(std::string_view text);

/// For text of several lines, such as a reply on a terminal: line breaks, tabs and marks of direction stay,
/// other control characters and bytes that are not UTF-8 become `\x1B`.
[[nodiscard]] std::string escaped_text(std::string_view text);

}  // namespace baleen
