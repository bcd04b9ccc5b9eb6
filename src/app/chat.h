/// `baleen chat`: a conversation in the terminal.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_chat_command(CLI::App& app);

}  // namespace baleen
