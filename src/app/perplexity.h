/// `baleen perplexity`: how well a model predicts a text.
#pragma once

namespace baleen {

class Options;

void add_perplexity_command(Options& program);

}  // namespace baleen
