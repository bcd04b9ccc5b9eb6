/// `baleen simulate search`: the best way to use so many devices, under limits of latency.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_simulate_search_command(CLI::App& simulate);

}  // namespace baleen
