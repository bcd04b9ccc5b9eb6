/// `baleen bench`: time of every operation against the limits of this machine.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_bench_command(CLI::App& app);

}  // namespace baleen
