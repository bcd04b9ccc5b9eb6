/// The tokens that may follow a configuration.
#pragma once

#include <string>

#include "grammar/configuration.h"
#include "grammar/mask_vocabulary.h"

namespace baleen {

/// Adds the text tokens of which all bytes can be read from `at`; the end token if the text may end there.
/// The sum of what each reading allows: a copy of its split's mask, and a walk over its tails.
void add_allowed_tokens(const CompiledGrammar& grammar, const MaskVocabulary& vocabulary,
                        const Configuration& at, TokenMask& mask);

/// The longest bytes that every text continuing `at` goes on with; at most kMaxForcedBytes.
[[nodiscard]] std::string forced_continuation(const CompiledGrammar& grammar, const Configuration& at);

inline constexpr std::size_t kMaxForcedBytes = 4096;

}  // namespace baleen
