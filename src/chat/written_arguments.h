/// Arguments that a model wrote into a call in another way than as parameters or JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/repaired_arguments.h"

namespace baleen {

/// The arguments that all of `body` writes out, each declared and once: as tags of their names
/// (`<command>ls</command>`), as pairs (`<arg_key>command</arg_key><arg_value>ls</arg_value>`), or as lines
/// (`command: ls`, `command = ls`) where no value can go on in the next line or be quoted. Nothing for
/// anything else. The caller asks whether the call may be made.
[[nodiscard]] std::optional<RepairedArguments> written_arguments(std::string_view body,
                                                                 const PythonJson& parameters);

/// The text of `<WORD>text</WORD>`, at the beginning of `text`, which is then behind it. Nothing, and `text`
/// as it was, for anything else.
[[nodiscard]] std::optional<std::pair<std::string_view, std::string_view>> take_element(
    std::string_view& text);

}  // namespace baleen
