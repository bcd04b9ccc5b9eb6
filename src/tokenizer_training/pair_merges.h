/// Byte-pair training: which two neighbouring tokens become one, again and again, the most frequent pair
/// first.
///
/// The merges are those of the trainer of Hugging Face's `tokenizers` library on the same word counts, its
/// corner cases included. Pairs of equal count go in the order of their ids, and ids are given in the order
/// of the byte-level alphabet, then of the merges. The count of a pair that was merged is not taken back:
/// where a second way to spell an existing token brings such a pair back, it competes with the old count on
/// top, and its rule moves to the later rank.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tensor/ragged_batch.h"
#include "tokenizer_training/word_counts.h"

namespace baleen {

struct MergeTrainingOptions {
  std::int64_t num_tokens = 0;  ///< to stop at, the 256 bytes included
  std::int64_t min_count = 0;   ///< rarer pairs are not merged
  /// Called now and then with the tokens so far; may be empty.
  std::function<void(std::int64_t)> progress;
};

struct TrainedMerges {
  struct Rule {
    TokenId left = 0, right = 0;
    bool operator==(const Rule&) const = default;
  };
  std::vector<std::string> tokens;  ///< bytes of every id: the alphabet, then one for each new token
  std::vector<Rule> rules;          ///< sorted by rank, each pair once
};

/// The 256 bytes in the order of their characters in the byte-level alphabet: "!" first, byte 0xAD last.
[[nodiscard]] std::vector<std::string> byte_alphabet();

/// Memory: 4 bytes a byte of the words, and the places of every pair. Deterministic; one thread.
[[nodiscard]] TrainedMerges train_merges(std::span<const WordCount> words,
                                         const MergeTrainingOptions& options);

}  // namespace baleen
