/// `baleen simulate`: what a step of a deployment takes, before there is one.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_simulate_command(CLI::App& app);

}  // namespace baleen
