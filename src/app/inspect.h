/// `baleen inspect`: what a checkpoint folder holds.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_inspect_command(CLI::App& app);

}  // namespace baleen
