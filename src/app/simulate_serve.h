/// `baleen simulate serve`: what clients of a deployment will feel under a load, request by request.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_simulate_serve_command(CLI::App& simulate);

}  // namespace baleen
