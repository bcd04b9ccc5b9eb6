/// `baleen init`: a random checkpoint of a known geometry.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_init_command(CLI::App& app);

}  // namespace baleen
