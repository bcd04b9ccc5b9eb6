/// What a reading says about the vocabulary as long as the rule that it is in lasts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/configuration.h"
#include "grammar/mask_vocabulary.h"

namespace baleen {

class CompiledGrammar;

/// A reading's own rule decides most tokens: allowed if the rule can read them, refused if it cannot. What is
/// left runs past the end of the rule; its tail, the bytes after that end, is for whoever called the rule to
/// judge. Inside a string that is `",` and its like: the tail `,` is judged once for all tokens that have it.
struct TokenSplit {
  TokenMask allowed;         ///< empty if they are few
  std::vector<TokenId> few;  ///< then these
  struct Tail {
    std::string_view bytes;  ///< not empty; lives as long as the vocabulary
    TokenId token = 0;
    std::uint16_t shared = 0;  ///< leading bytes in common with the tail before
  };
  std::vector<Tail> tails;  ///< sorted by their bytes
  int needed_depth = 0;     ///< valid where calls may nest at least this deep

  [[nodiscard]] std::size_t size_bytes() const;
};

/// The split of a reading of `at`, from the caches or computed now: a walk over the tokens that begin with a
/// byte that it can read, about a millisecond for 129,280 tokens in a string.
[[nodiscard]] std::shared_ptr<const TokenSplit> split_of(const CompiledGrammar& grammar,
                                                         const MaskVocabulary& vocabulary,
                                                         const Configuration& at,
                                                         const Configuration::Reading& reading);

/// The index of the frame to which the rule of a reading returns; kBottom when it is the outermost.
[[nodiscard]] std::int32_t return_frame(const Configuration& at, const Configuration::Reading& reading);

}  // namespace baleen
