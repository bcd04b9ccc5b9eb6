/// Which rows of the Engram tables the tokens of a step read: n-grams of all its sequences, hashed for all
/// tables (model/engram_tables.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "model/engram_tables.h"
#include "tensor/ragged_batch.h"
#include "tensor/view.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

/// Tokens of one sequence in a step. What precedes them is all the state that n-grams have: whoever keeps the
/// last three ids of a sequence restores it by naming them.
struct EngramRun {
  std::span<const TokenId> before;  ///< its tokens before these, of which the last three are looked at
  std::span<const TokenId> ids;     ///< known ones, from 0 on
};

class EngramHashes {
 public:
  /// `compressed`: each token's id in the compressed vocabulary, below the config's size. Tokens beyond these
  /// have no text and are padding.
  EngramHashes(const ModelConfig& config, std::vector<TokenId> compressed);
  EngramHashes(EngramHashes&&) = default;  // where `tokens_` points stays where it is
  EngramHashes(const EngramHashes&) = delete;

  [[nodiscard]] std::int64_t num_tables() const { return std::ssize(tables_); }
  /// Rows that a token reads of a table.
  [[nodiscard]] std::int64_t num_hashes() const { return std::ssize(tables_.front().primes); }
  /// Tokens before a run that are looked at.
  [[nodiscard]] std::int64_t num_before() const { return std::ssize(tables_.front().multipliers) - 1; }

  /// To `rows`: [tokens of all runs, tables, hashes].
  void find(std::span<const EngramRun> runs, View<std::int64_t, 3> rows) const;

 private:
  std::vector<EngramTable> tables_;
  std::vector<TokenId> compressed_;
  EngramTokens tokens_;
};

/// The compressed ids of a tokenizer's tokens. Throws `Error` where they are not as many as the config says.
[[nodiscard]] std::vector<TokenId> engram_vocabulary(const EngramConfig& config, const Tokenizer& tokenizer);

}  // namespace baleen
