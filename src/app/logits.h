/// `baleen logits`: a file of token ids to a safetensors file of logits, for comparison with other
/// implementations.
#pragma once

namespace baleen {

class Options;

void add_logits_command(Options& program);

}  // namespace baleen
