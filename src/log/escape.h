/// Text from outside as one line that can be shown: no line of its own, no commands to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace baleen {

/// `\n`, `\r` and `\t` for these three; `\x1B` for other control characters, for bytes that are not UTF-8,
/// and for the bytes of C1 controls, line separators and marks that change the direction of text. All else
/// stays, a backslash too: the result is for reading and not for parsing.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace baleen
