// The merge loop against its textbook form: look at all neighbours, merge the lowest rank, begin again.
#include "tokenizer/byte_pair_merger.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/tokenizer/small_vocabulary.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocabulary.h"

namespace baleen {
namespace {

MergeTable table_of(const std::vector<BytePair>& merges) {
  const TokenizerJson json = read_tokenizer_json(small_vocabulary(merges).dump(), "test");
  return {index_tokens(json.vocabulary, {}, "test"), json.merges, "test"};
}

std::vector<TokenId> merged(const MergeTable& table, std::string_view piece) {
  BytePairMerger merger(table);
  std::vector<TokenId> ids;
  merger.merge(piece, ids);
  return ids;
}

std::vector<std::string> textbook(const std::vector<BytePair>& merges, const std::string& piece) {
  std::vector<std::string> tokens;
  for (const char c : piece) tokens.emplace_back(1, c);
  for (;;) {
    std::size_t best_rank = merges.size();
    std::size_t best_at = 0;
    for (std::size_t at = 0; at + 1 < tokens.size(); ++at) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank] == BytePair{tokens[at], tokens[at + 1]}) {
          best_rank = rank;
          best_at = at;
        }
      }
    }
    if (best_rank == merges.size()) return tokens;
    tokens[best_at] += tokens[best_at + 1];
    tokens.erase(tokens.begin() + best_at + 1);
  }
}

/// Merges that tokens of earlier merges take part in, over the letters a, b and c; no pair and no result
/// twice.
std::vector<BytePair> random_merges(std::mt19937& random, std::size_t count) {
  std::vector<std::string> tokens = {"a", "b", "c"};
  std::vector<BytePair> merges;
  for (std::size_t attempt = 0; attempt < 4 * count && merges.size() < count; ++attempt) {
    const std::string& left = tokens[random() % tokens.size()];
    const std::string& right = tokens[random() % tokens.size()];
    const std::string both = left + right;
    if (std::find(tokens.begin(), tokens.end(), both) != tokens.end()) continue;
    merges.emplace_back(left, right);
    tokens.push_back(both);
  }
  return merges;
}

TEST(BytePairMerger, LowestRankFirst) {
  const MergeTable table = table_of({{"b", "c"}, {"a", "b"}, {"a", "bc"}});
  EXPECT_EQ(merged(table, "abc"), (std::vector<TokenId>{258})) << "b c (256) goes before a b (257)";
  EXPECT_EQ(merged(table, "abd"), (std::vector<TokenId>{257, 'd'}));
  EXPECT_EQ(merged(table, "x"), (std::vector<TokenId>{'x'}));
}

TEST(BytePairMerger, LeftmostFirstAmongEquals) {
  const MergeTable table = table_of({{"a", "a"}});
  EXPECT_EQ(merged(table, "aaa"), (std::vector<TokenId>{256, 'a'}));
  EXPECT_EQ(merged(table, "aaaaa"), (std::vector<TokenId>{256, 256, 'a'}));
  std::vector<TokenId> long_run(1000, 256);
  long_run.push_back('a');
  EXPECT_EQ(merged(table, std::string(2001, 'a')), long_run);
}

TEST(BytePairMerger, AgreesWithTheTextbookOnShortAndLongPieces) {
  EXPECT_TRUE(rc::check([](std::uint32_t seed) {
    std::mt19937 random(seed);
    const std::vector<BytePair> merges = random_merges(random, 30);
    const MergeTable table = table_of(merges);
    const Vocabulary vocabulary(read_tokenizer_json(small_vocabulary(merges).dump(), "test").vocabulary, {},
                                "test");
    for (const std::size_t size : {1u, 2u, 7u, 30u, 95u, 96u, 97u, 300u}) {
      std::string piece;
      for (std::size_t i = 0; i < size; ++i) piece += static_cast<char>('a' + random() % 3);
      std::vector<std::string> tokens;
      for (const TokenId id : merged(table, piece)) tokens.emplace_back(vocabulary.bytes_of(id));
      RC_ASSERT(tokens == textbook(merges, piece));
    }
  }));
}

}  // namespace
}  // namespace baleen
