/// `baleen run`: one prompt, one reply.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_run_command(CLI::App& app);

}  // namespace baleen
