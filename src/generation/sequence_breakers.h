/// Texts that repetitions do not reach across, in tokens of a vocabulary: for the DRY penalty.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sampling/dry_penalty.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

/// Those of llama.cpp.
[[nodiscard]] const std::vector<std::string>& default_sequence_breakers();

/// A breaker may begin within a token and end in a later one: every token that ends with a beginning of it is
/// found, with the rest as the tokenizer would write it. `texts`: valid UTF-8; empty ones break nothing.
/// Looks at every token of the vocabulary: some 10 ms for the real one and the default texts.
[[nodiscard]] std::shared_ptr<const SequenceBreakers> sequence_breakers(const Tokenizer& tokenizer,
                                                                        std::span<const std::string> texts);

}  // namespace baleen
