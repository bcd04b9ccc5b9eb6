/// `baleen serve`: the model behind HTTP, for chat clients and agents.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_serve_command(CLI::App& app);

}  // namespace baleen
