/// `baleen perplexity`: how well a model predicts a text.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_perplexity_command(CLI::App& app);

}  // namespace baleen
