/// `baleen plan`: what memory a model takes on a device, before anything is loaded.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_plan_command(CLI::App& app);

}  // namespace baleen
