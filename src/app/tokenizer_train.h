/// `baleen tokenizer train`: a vocabulary from text.
#pragma once

namespace baleen {

class Options;

/// `tokenizer` and its commands.
void add_tokenizer_command(Options& program);

}  // namespace baleen
