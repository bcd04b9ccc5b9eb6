/// `baleen convert`: other shards, other number formats.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_convert_command(CLI::App& app);

}  // namespace baleen
