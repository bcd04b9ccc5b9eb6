/// Which rows of a V4.1's Engram tables a token reads: hashes of the n-grams that end with it, of compressed
/// ids.
///
///     c_0 is the position's compressed id, c_1 that of the position before it, ...
///     h_n = c_0 m_0 ^ c_1 m_1 ^ ... ^ c_{n-1} m_{n-1}        for n-grams of n = 2, 3, 4 tokens
///     row = offset + h_n mod prime                           for each n, with 8 primes
///
/// The n-gram of a position near the beginning, or behind an image, is filled up with the padding's id.
/// (source: releases specification 2.7, 9.C)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "tensor/ragged_batch.h"
#include "tensor/view.h"

namespace baleen {

struct EngramTable {
  std::vector<std::int64_t> multipliers;  ///< [max_ngram_size], odd
  std::vector<std::int64_t> primes;       ///< [num_hashes] by the length of the n-gram
  std::vector<std::int64_t> offsets;      ///< [num_hashes] first row of each hash

  [[nodiscard]] std::int64_t num_rows() const { return offsets.back() + primes.back(); }
};

/// One for each of `layer_ids`. Primes ascend from `vocab_size` on, over all tables; multipliers are those
/// that NumPy's default generator gives for 10007 x layer.
[[nodiscard]] std::vector<EngramTable> engram_tables(const EngramConfig& engram);

/// Tokens as Engram sees them.
struct EngramTokens {
  std::span<const TokenId> compressed;  ///< each token's id (tokenizer/compressed_vocabulary.h)
  TokenId pad_token = 0;
  TokenId image_token = -1;  ///< -1: there is none
};

/// Rows that each of `ids` reads, in the order of the primes, to `rows`: [ids, num_hashes]. `before`: what
/// their sequence has before them, of which the last max_ngram_size - 1 tokens are looked at; these are all
/// the state that a sequence has of its n-grams.
void engram_rows(const EngramTable& table, const EngramTokens& tokens, std::span<const TokenId> before,
                 std::span<const TokenId> ids, View<std::int64_t, 2> rows);

}  // namespace baleen
