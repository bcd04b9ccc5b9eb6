// The merges against those of the `tokenizers` library (goldens/make_merges.mjs) and against training by
// definition.
#include "tokenizer_training/pair_merges.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tokenizer_training/slow_trainer.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/v4_format.h"
#include "tokenizer_training/word_counts.h"

namespace baleen {
namespace {

constexpr const char* kGoldens = "tests/tokenizer_training/goldens/";

/// The words of the golden corpus, line by line as the library reads files.
std::vector<WordCount> golden_words(int num_threads) {
  const PreTokenizer pre_tokenizer(v4_split_rules(), "test");
  WordCounter counter(pre_tokenizer, num_threads);
  std::ifstream corpus(std::string(kGoldens) + "corpus.txt", std::ios::binary);
  int thread = 0;
  for (std::string line; std::getline(corpus, line); thread = (thread + 1) % num_threads)
    EXPECT_FALSE(counter.add(line + "\n", thread).has_value());
  return counter.take();
}

std::string byte_level(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += byte_level_character(static_cast<std::uint8_t>(byte));
  return text;
}

std::vector<std::string> lines_of(const TrainedMerges& merges) {
  std::vector<std::string> lines;
  for (const TrainedMerges::Rule& rule : merges.rules)
    lines.push_back(byte_level(merges.tokens[rule.left]) + " " + byte_level(merges.tokens[rule.right]));
  return lines;
}

std::vector<std::string> golden_lines() {
  std::ifstream file(std::string(kGoldens) + "merges.txt", std::ios::binary);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(PairMerges, AreThoseOfTheTokenizersLibrary) {
  const std::vector<std::string> expected = golden_lines();
  ASSERT_GT(expected.size(), 2000u);
  const TrainedMerges merges = train_merges(golden_words(1), {.num_tokens = 30'000});
  EXPECT_EQ(lines_of(merges), expected);
}

TEST(PairMerges, DoNotDependOnWhichThreadCountedAWord) { EXPECT_EQ(golden_words(1), golden_words(3)); }

TEST(PairMerges, OfASmallerVocabularyAreThoseOfALargerOneCutShort) {
  const std::vector<WordCount> words = golden_words(1);
  const TrainedMerges small = train_merges(words, {.num_tokens = 300});
  EXPECT_EQ(small.tokens.size(), 300u);
  std::vector<std::string> expected = golden_lines();
  expected.resize(small.rules.size());
  EXPECT_EQ(lines_of(small), expected);
}

/// Words over few letters: counts tie, runs overlap, tokens have several spellings.
std::vector<WordCount> random_words(std::mt19937_64& random) {
  std::map<std::string, std::int64_t> counts;
  const int num_words = 1 + static_cast<int>(random() % 30), num_letters = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < num_words; ++i) {
    std::string word;
    const int length = 1 + static_cast<int>(random() % 24);
    for (int j = 0; j < length; ++j) word += static_cast<char>('a' + random() % num_letters);
    counts[word] += 1 + static_cast<std::int64_t>(random() % 3);
  }
  std::vector<WordCount> words;
  for (const auto& [word, count] : counts) words.push_back({word, count});
  return words;
}

TEST(PairMerges, AreThoseOfTheDefinition) {
  rc::check("random words", [](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const std::vector<WordCount> words = random_words(random);
    const std::int64_t num_tokens = 256 + static_cast<std::int64_t>(random() % 200);
    const std::int64_t min_count = static_cast<std::int64_t>(random() % 4);
    const TrainedMerges merges = train_merges(words, {.num_tokens = num_tokens, .min_count = min_count});
    const TrainedMerges expected = test::SlowTrainer(words).run(num_tokens, min_count);
    RC_ASSERT(merges.tokens == expected.tokens);
    RC_ASSERT(merges.rules == expected.rules);
  });
}

TEST(PairMerges, EqualCountsGoInTheOrderOfIds) {
  const std::vector<WordCount> words{{"cd", 2}, {"ab", 2}, {"xy", 3}};
  EXPECT_EQ(lines_of(train_merges(words, {.num_tokens = 300})),
            (std::vector<std::string>{"x y", "a b", "c d"}));
  EXPECT_EQ(lines_of(train_merges(words, {.num_tokens = 300, .min_count = 3})),
            (std::vector<std::string>{"x y"}));
}

TEST(PairMerges, OfNothingAreNone) {
  const TrainedMerges merges = train_merges({}, {.num_tokens = 1000});
  EXPECT_EQ(merges.tokens.size(), 256u);
  EXPECT_TRUE(merges.rules.empty());
}

TEST(WordCounter, RefusesWhatIsNoText) {
  const PreTokenizer pre_tokenizer(v4_split_rules(), "test");
  WordCounter counter(pre_tokenizer, 1);
  const auto failed = counter.add("ab\xFFz", 0);
  ASSERT_TRUE(failed.has_value());
  EXPECT_NE(failed->message.find("byte 2 is not UTF-8"), std::string::npos) << failed->message;
}

}  // namespace
}  // namespace baleen
