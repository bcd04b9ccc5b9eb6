/// `baleen simulate train`: time and memory of a step of training.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_simulate_train_command(CLI::App& simulate);

}  // namespace baleen
