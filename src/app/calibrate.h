/// `baleen calibrate`: a device profile of this machine.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_calibrate_command(CLI::App& app);

}  // namespace baleen
