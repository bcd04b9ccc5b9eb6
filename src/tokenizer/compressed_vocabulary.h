/// Tokens by their texts without accents, case and kinds of space: the vocabulary of DeepSeek-V4.1's n-grams.
/// (source: releases specification 2.7, 9.C)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace baleen {

struct CompressedVocabulary {
  std::vector<TokenId> of_token;  ///< [vocab_size] the compressed id
  std::int64_t size = 0;
};

/// Two tokens are one where their texts are equal after folding (`fold_text`), runs of space, tab and line
/// ends to one space, and trimming. A lone space stays; a text of which nothing is left stays as it was; a
/// token that is not whole characters counts by its form in the file. Compressed ids are in the order of
/// token ids.
[[nodiscard]] CompressedVocabulary compress_vocabulary(const Tokenizer& tokenizer);

/// The sentence about one of another size than config.json says, by which n-grams are hashed, so that every
/// hash would be wrong; empty: it has that size.
[[nodiscard]] std::string why_not_vocabulary(const CompressedVocabulary& vocabulary, std::int64_t expected);

}  // namespace baleen
