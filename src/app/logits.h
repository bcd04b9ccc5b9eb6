/// `baleen logits`: a file of token ids to a safetensors file of logits, for comparison with other
/// implementations.
#pragma once

#include <CLI/CLI.hpp>

namespace baleen {

void add_logits_command(CLI::App& app);

}  // namespace baleen
