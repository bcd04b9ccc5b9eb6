/// `baleen simulate validate`: predicted against published figures.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_simulate_validate_command(CLI::App& simulate);

}  // namespace baleen
