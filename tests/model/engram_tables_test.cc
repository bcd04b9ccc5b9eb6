// Engram's hashes: the published multipliers and numbers of rows, rows by hand, and what a row does not
// depend on.
#include "model/engram_tables.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace baleen {
namespace {

EngramConfig released() {
  return {.layer_ids = {1, 14},
          .num_embeddings = {384006168, 384016682},
          .max_ngram_size = 4,
          .vocab_size = 16'000'000,
          .n_heads = 8,
          .head_dim = 256,
          .pad_token_id = 2,
          .compressed_vocab_size = 99'092};
}

TEST(EngramTables, PublishedMultipliersAndRows) {
  const std::vector<EngramTable> tables = engram_tables(released());
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].multipliers,
            (std::vector<std::int64_t>{76632096046245, 4839876093313, 35959672319349, 73987337458391}));
  EXPECT_EQ(tables[1].multipliers,
            (std::vector<std::int64_t>{67716810739261, 51510806800915, 30921347202721, 82619226485591}));
  EXPECT_EQ(tables[0].num_rows(), 384'006'168);
  EXPECT_EQ(tables[1].num_rows(), 384'016'682);
  std::set<std::int64_t> primes;
  for (const EngramTable& table : tables) {
    ASSERT_EQ(table.primes.size(), 24U);
    primes.insert(table.primes.begin(), table.primes.end());
    EXPECT_EQ(std::accumulate(table.primes.begin(), table.primes.end(), std::int64_t{0}), table.num_rows());
    EXPECT_EQ(table.offsets[0], 0);
    EXPECT_EQ(table.offsets[23], table.num_rows() - table.primes[23]);
  }
  EXPECT_EQ(primes.size(), 48U);  // none twice
  EXPECT_GT(*primes.begin(), 15'999'999);
}

/// Seven tokens of five texts; padding is compressed id 3.
struct Tiny {
  std::vector<TokenId> compressed{4, 1, 3, 0, 2, 1, 4};
  EngramConfig config{.layer_ids = {1, 2},
                      .num_embeddings = {},
                      .max_ngram_size = 3,
                      .vocab_size = 10,
                      .n_heads = 2,
                      .head_dim = 4,
                      .pad_token_id = 2,
                      .compressed_vocab_size = 5};
  EngramTokens tokens{.compressed = compressed, .pad_token = 2};
};

/// Those that the last of `ids` reads.
std::vector<std::int64_t> engram_rows(const EngramTable& table, const EngramTokens& tokens,
                                      std::span<const TokenId> ids) {
  std::vector<std::int64_t> rows(table.primes.size());
  baleen::engram_rows(table, tokens, ids.first(ids.size() - 1), ids.last(1),
                      {rows.data(), {1, std::ssize(rows)}});
  return rows;
}

TEST(EngramTables, RowsByHand) {
  const Tiny tiny;
  const std::vector<EngramTable> tables = engram_tables(tiny.config);
  EXPECT_EQ(tables[0].primes, (std::vector<std::int64_t>{11, 13, 17, 19}));
  EXPECT_EQ(tables[1].primes, (std::vector<std::int64_t>{23, 29, 31, 37}));
  EXPECT_EQ(tables[0].offsets, (std::vector<std::int64_t>{0, 11, 24, 41}));
  const EngramTable by_hand{.multipliers = {3, 5, 7}, .primes = {11, 13, 17, 19}, .offsets = {0, 11, 24, 41}};
  // c = 2, 0, 3: 6 ^ 0 = 6, then 6 ^ 21 = 19
  EXPECT_EQ(engram_rows(by_hand, tiny.tokens, std::vector<TokenId>{2, 3, 4}),
            (std::vector<std::int64_t>{6, 11 + 6, 24 + 2, 41 + 0}));
  // The first token, before which there is padding: c = 1, 3, 3: 3 ^ 15 = 12, then 12 ^ 21 = 25
  EXPECT_EQ(engram_rows(by_hand, tiny.tokens, std::vector<TokenId>{5}),
            (std::vector<std::int64_t>{1, 11 + 12, 24 + 8, 41 + 6}));
}

TEST(EngramTables, ARowDependsOnItsNgramAlone) {
  const Tiny tiny;
  const EngramTable table = engram_tables(tiny.config)[1];
  const std::vector<TokenId> ids{0, 1, 3, 4, 6, 5, 1, 0, 3, 3, 2, 4};
  for (std::size_t end = 1; end <= ids.size(); ++end) {
    const std::span<const TokenId> whole = std::span(ids).first(end);
    const std::span<const TokenId> last = whole.last(std::min<std::size_t>(end, 3));
    EXPECT_EQ(engram_rows(table, tiny.tokens, last), engram_rows(table, tiny.tokens, whole)) << end;
    // Tokens of one text are one token: 1 and 5, 0 and 6.
    std::vector<TokenId> same(whole.begin(), whole.end());
    for (TokenId& id : same) id = id == 1 ? 5 : id == 5 ? 1 : id == 0 ? 6 : id == 6 ? 0 : id;
    EXPECT_EQ(engram_rows(table, tiny.tokens, same), engram_rows(table, tiny.tokens, whole)) << end;
  }
  for (const std::size_t changed : {0U, 1U, 2U}) {
    std::vector<TokenId> ngram{3, 4, 1}, other = ngram;
    other[changed] = 0;
    EXPECT_NE(engram_rows(table, tiny.tokens, ngram), engram_rows(table, tiny.tokens, other)) << changed;
  }
}

TEST(EngramTables, PiecesReadWhatTheWholeReads) {
  Tiny tiny;
  tiny.config.max_ngram_size = 4;
  tiny.tokens.image_token = 6;
  const std::vector<TokenId> ids{0, 1, 3, 4, 6, 5, 1, 0, 3, 3, 2, 4};
  for (const EngramTable& table : engram_tables(tiny.config)) {
    const auto num_hashes = std::ssize(table.primes);
    const auto rows_from = [&](std::size_t begin, std::size_t end, std::size_t num_before) {
      std::vector<std::int64_t> rows((end - begin) * table.primes.size());
      baleen::engram_rows(table, tiny.tokens, std::span(ids).first(begin).last(std::min(begin, num_before)),
                          std::span(ids).subspan(begin, end - begin),
                          {rows.data(), {static_cast<std::int64_t>(end - begin), num_hashes}});
      return rows;
    };
    const std::vector<std::int64_t> whole = rows_from(0, ids.size(), 0);
    for (const std::size_t piece : {1U, 2U, 3U, 5U, 11U}) {
      std::vector<std::int64_t> joined;
      for (std::size_t begin = 0; begin < ids.size(); begin += piece) {
        // Three tokens before are as good as all of them, and two are not.
        const std::vector<std::int64_t> rows = rows_from(begin, std::min(begin + piece, ids.size()), 3);
        joined.insert(joined.end(), rows.begin(), rows.end());
      }
      EXPECT_EQ(joined, whole) << piece;
    }
    EXPECT_NE(rows_from(3, 4, 2), rows_from(3, 4, 3));
  }
}

TEST(EngramTables, NothingIsReadThroughAnImage) {
  Tiny tiny;
  tiny.tokens.image_token = 4;
  const EngramTable table = engram_tables(tiny.config)[0];
  const auto rows = [&](std::vector<TokenId> ids) { return engram_rows(table, tiny.tokens, ids); };
  EXPECT_EQ(rows({1, 4, 3}), rows({3}));
  EXPECT_EQ(rows({4, 1, 3}), rows({1, 3}));
  EXPECT_EQ(rows({1, 3, 4}), rows({2}));
}

}  // namespace
}  // namespace baleen
