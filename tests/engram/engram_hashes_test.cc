// Rows of a step: sequences beside each other, pieces of one, what n-grams do not see, texts that are one.
#include "engram/engram_hashes.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/engram/small_tables.h"
#include "tests/tokenizer/small_vocabulary.h"
#include "tokenizer/compressed_vocabulary.h"

namespace baleen {
namespace {

class EngramHashesOfSteps : public testing::Test {
 protected:
  using Rows = std::vector<std::int64_t>;

  Rows find(const std::vector<EngramRun>& runs) const { return find(hashes_, runs); }
  static Rows find(const EngramHashes& hashes, const std::vector<EngramRun>& runs) {
    std::int64_t count = 0;
    for (const EngramRun& run : runs) count += std::ssize(run.ids);
    Rows rows(static_cast<std::size_t>(count * hashes.num_tables() * hashes.num_hashes()));
    hashes.find(runs, {rows.data(), {count, hashes.num_tables(), hashes.num_hashes()}});
    return rows;
  }

  EngramHashes hashes_{test::small_engram_config(), test::small_compressed_ids()};
};

TEST_F(EngramHashesOfSteps, AreThoseOfEachTable) {
  const ModelConfig config = test::small_engram_config();
  const std::vector<TokenId> ids{5, 9, 2, 30, 5}, compressed = test::small_compressed_ids();
  const Rows rows = find({{{}, ids}});
  const std::vector<EngramTable> tables = engram_tables(*config.engram);
  for (std::size_t table = 0; table < 2; ++table) {
    Rows want(ids.size() * 6);
    engram_rows(tables[table], {.compressed = compressed, .pad_token = 2}, {}, ids, {want.data(), {5, 6}});
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(rows[i / 6 * 12 + table * 6 + i % 6], want[i]) << table << ", " << i;
  }
}

TEST_F(EngramHashesOfSteps, PiecesOfSequencesBesideOthersReadTheSame) {
  const std::vector<TokenId> one{5, 9, 31, 7, 5, 5, 1, 0, 30, 4}, other{3, 3, 8, 1, 9};
  const Rows whole = find({{{}, one}}), whole_other = find({{{}, other}});
  Rows joined, joined_other;
  for (std::size_t at = 0; at < other.size(); ++at) {
    const std::span<const TokenId> all(one), of_other(other);
    const Rows both =
        find({{all.first(2 * at), all.subspan(2 * at, 2)}, {of_other.first(at), of_other.subspan(at, 1)}});
    joined.insert(joined.end(), both.begin(), both.begin() + 24);
    joined_other.insert(joined_other.end(), both.begin() + 24, both.end());
  }
  EXPECT_EQ(joined, whole);
  EXPECT_EQ(joined_other, whole_other);
}

TEST_F(EngramHashesOfSteps, TheTokenFourBackDoesNotMatterAndTheOneThreeBackDoes) {
  const std::vector<TokenId> ids{6};
  const std::vector<TokenId> before{1, 4, 5, 3}, four_back{9, 4, 5, 3}, three_back{1, 9, 5, 3};
  EXPECT_EQ(find({{before, ids}}), find({{four_back, ids}}));
  EXPECT_EQ(find({{before, ids}}), find({{std::span(before).last(3), ids}}));
  EXPECT_NE(find({{before, ids}}), find({{three_back, ids}}));
  EXPECT_NE(find({{before, ids}}), find({{std::span(before).last(2), ids}}));
}

TEST_F(EngramHashesOfSteps, BeforeTheBeginningThereIsPadding) {
  const std::vector<TokenId> ids{6}, padding{2, 2, 2};
  EXPECT_EQ(find({{{}, ids}}), find({{padding, ids}}));
}

TEST_F(EngramHashesOfSteps, NothingIsSeenThroughAnImage) {
  const std::vector<TokenId> ids{6}, image{5, 31, 4}, padding{2, 2, 4};
  EXPECT_EQ(find({{image, ids}}), find({{padding, ids}}));
  const std::vector<TokenId> text{5, 30, 4};
  EXPECT_NE(find({{text, ids}}), find({{padding, ids}}));
}

TEST_F(EngramHashesOfSteps, TokensWithoutTextArePadding) {
  std::vector<TokenId> fewer = test::small_compressed_ids();
  fewer.resize(20);
  const EngramHashes hashes(test::small_engram_config(), fewer);
  const std::vector<TokenId> beyond{25, 4}, padding{2, 4};
  EXPECT_EQ(find(hashes, {{{}, beyond}}), find(hashes, {{{}, padding}}));
}

/// Case, accents and kinds of space do not change what is read.
TEST(EngramVocabulary, TextsThatFoldToOneReadTheSameRows) {
  nlohmann::json file = small_vocabulary({{"\xC3", "\xA9"}, {" ", " "}, {"\t", "\n"}});  // 256 to 258
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "tokenizer.json");
  ModelConfig config = test::small_engram_config();
  config.vocab_size = 259;
  config.engram->image_token_id = -1;
  config.engram->compressed_vocab_size = 1;
  std::string why;
  try {
    static_cast<void>(engram_vocabulary(*config.engram, tokenizer));
  } catch (const Error& error) {
    why = error.what();
  }
  EXPECT_NE(why.find("expected 1 (\"engram_compressed_vocab_size\")"), std::string::npos) << why;
  const CompressedVocabulary vocabulary = compress_vocabulary(tokenizer);
  config.engram->compressed_vocab_size = vocabulary.size;
  const EngramHashes hashes(config, engram_vocabulary(*config.engram, tokenizer));
  const auto rows = [&](const std::vector<TokenId>& ids) {
    const std::vector<EngramRun> runs{{{}, ids}};
    std::vector<std::int64_t> found(ids.size() * 12);
    hashes.find(runs, {found.data(), {std::ssize(ids), 2, 6}});
    return found;
  };
  const std::vector<TokenId> plain{'e', ' ', 'x', 'y'};
  EXPECT_EQ(rows({'E', ' ', 'X', 'y'}), rows(plain));
  EXPECT_EQ(rows({256, ' ', 'x', 'Y'}), rows(plain));  // é
  EXPECT_EQ(rows({'e', 257, 'x', 'y'}), rows(plain));
  EXPECT_EQ(rows({'e', 258, 'x', 'y'}), rows(plain));
  EXPECT_NE(rows({'f', ' ', 'x', 'y'}), rows(plain));
}

}  // namespace
}  // namespace baleen
