#include "generation/repetition_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "repetitive_texts.h"
#include "tokenizer/tokenizer.h"

namespace baleen {
namespace {

/// The definition, over the whole text and period by period.
class PlainDetector {
 public:
  explicit PlainDetector(const RepetitionLimits& limits)
      : limits_(limits), scores_(static_cast<std::size_t>(limits.max_period) + 2) {}

  bool add(TokenId token, bool is_word) {
    const std::vector<std::int64_t> before = scores_;
    bool loops = false;
    for (std::int64_t period = 1; period <= limits_.max_period; ++period) {
      const std::int64_t other = std::ssize(text_) - period;
      const bool same = other >= 0 && text_[static_cast<std::size_t>(other)] == token;
      const std::int64_t change = same ? (is_word ? 4 : 1) : -20;
      const auto at = static_cast<std::size_t>(period);
      scores_[at] =
          std::max({before[at] + change, before[at + 1] + change - 20, before[at - 1] - 20, std::int64_t{0}});
      loops |= scores_[at] >= 4 * std::max(limits_.min_tokens, (limits_.min_count - 1) * period);
    }
    text_.push_back(token);
    return loops;
  }

 private:
  RepetitionLimits limits_;
  std::vector<TokenId> text_;
  std::vector<std::int64_t> scores_;
};

TEST(RepetitionDetector, IsWhatThePlainDefinitionSays) {
  std::mt19937_64 random(3);
  int num_loops = 0;
  for (int round = 0; round < 300; ++round) {
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
    };
    const RepetitionLimits limits{
        .min_tokens = pick(1, 40), .min_count = pick(2, 5), .max_period = pick(1, 30)};
    RepetitionDetector detector(limits);
    PlainDetector plain(limits);
    // Stretches of noise, of loops, and of loops with a token changed, put in or left out here and there.
    std::vector<TokenId> text;
    while (text.size() < 400) {
      const std::int64_t period = pick(1, 35), noise = pick(0, 3), length = pick(1, 8) * period;
      std::vector<TokenId> cycle;
      for (std::int64_t i = 0; i < period; ++i) cycle.push_back(static_cast<TokenId>(pick(0, 9)));
      for (std::int64_t i = 0; i < length; ++i) {
        const TokenId token = cycle[static_cast<std::size_t>(i % period)];
        if (pick(0, 60) < noise) text.push_back(static_cast<TokenId>(pick(0, 9)));
        if (pick(0, 60) >= noise) text.push_back(token);
      }
    }
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool is_word = text[i] % 3 != 0, loops = plain.add(text[i], is_word);
      ASSERT_EQ(detector.add(text[i], is_word), loops) << "round " << round << ", token " << i;
      num_loops += loops ? 1 : 0;
    }
  }
  EXPECT_GT(num_loops, 1000);
}

/// Tokens of the loop until it is found.
std::int64_t found_after(RepetitionDetector& detector, std::int64_t period, bool is_word,
                         std::int64_t change_every = 0) {
  for (TokenId other = 100'000; other < 101'000; ++other) EXPECT_FALSE(detector.add(other, true));
  for (std::int64_t i = 0; i < 100'000; ++i) {
    TokenId token = static_cast<TokenId>(i % period);
    if (change_every > 0 && i % change_every == 0) token = static_cast<TokenId>(200'000 + i);
    if (detector.add(token, is_word)) return i + 1;
  }
  return -1;
}

TEST(RepetitionDetector, ExactLoopsAreFoundAfterTheTokensThatTheHeaderStates) {
  const RepetitionLimits limits;
  RepetitionDetector detector(limits);
  for (const std::int64_t period : {1, 2, 3, 17, 64, 255, 511, 512}) {
    detector.restart();
    EXPECT_EQ(found_after(detector, period, true), period + 2048) << period;
    detector.restart();
    EXPECT_EQ(found_after(detector, period, false), period + 4 * 2048) << period;
  }
  detector.restart();
  EXPECT_EQ(found_after(detector, 513, true), -1);
  RepetitionDetector counts({.min_tokens = 10, .min_count = 6});
  EXPECT_EQ(found_after(counts, 100, true), 600);
  RepetitionDetector shorter({.max_period = 16});
  EXPECT_EQ(found_after(shorter, 17, true), -1);
}

TEST(RepetitionDetector, LoopsThatChangeAreFoundLaterAndListsNever) {
  for (const std::int64_t period : {10, 20, 60, 500}) {
    RepetitionDetector detector(RepetitionLimits{});
    const double changing = 1.0 / static_cast<double>(period);
    const std::int64_t found = found_after(detector, period, true, period);
    EXPECT_GT(found, 2048);
    EXPECT_LE(static_cast<double>(found), 2048 / (1 - 6 * changing) + 2 * static_cast<double>(period))
        << period;
  }
  for (const std::int64_t change_every : {2, 3, 6}) {
    RepetitionDetector detector(RepetitionLimits{});
    EXPECT_EQ(found_after(detector, 6 * change_every, true, change_every), -1) << change_every;
  }
}

TEST(RepetitionDetector, BeginsAnew) {
  RepetitionDetector detector({.min_tokens = 50});
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(detector.add(7, true));
  detector.restart();
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(detector.add(7, true));
  EXPECT_TRUE(detector.add(7, true));
}

TEST(RepetitionDetector, KnowsWordsFromSigns) {
  for (const char* word : {"a", "Z", " the", "x1", "é", "ß", "我", "日本", "д", "한", "0x", "\nif"})
    EXPECT_TRUE(has_letter(word)) << word;
  for (const char* sign : {"", " ", "\n\n", "0", "123", ", ", "----", "|", "─", "…", "•", "「", "。", "，",
                           "😀", "\xA0", "\xE2", "_"})
    EXPECT_FALSE(has_letter(sign)) << sign;
}

/// Tokens until the text loops; nothing if it does not.
std::optional<std::int64_t> loops_after(const Tokenizer& tokenizer, const std::string& text,
                                        const RepetitionLimits& limits = {}) {
  RepetitionDetector detector(limits);
  std::int64_t count = 0;
  const std::vector<TokenId> tokens = tokenizer.encode(text).value();
  for (const TokenId token : tokens) {
    ++count;
    if (detector.add(token, has_letter(tokenizer.bytes_of(token)))) return count;
  }
  return std::nullopt;
}

void expect_sound(const Tokenizer& tokenizer, std::int64_t size) {
  const std::vector<NamedText> texts = sound_texts(size);
  EXPECT_GT(texts.size(), 30u);
  for (const auto& [name, text] : texts) {
    const auto found = loops_after(tokenizer, text);
    EXPECT_FALSE(found.has_value()) << name << " loops after " << *found << " tokens";
  }
}

void expect_loops(const Tokenizer& tokenizer) {
  for (const auto& [name, text] : looping_texts(64'000)) {
    const auto found = loops_after(tokenizer, text);
    EXPECT_TRUE(found.has_value()) << name;
    EXPECT_LE(found.value_or(0), 6000) << name;
  }
}

TEST(RepetitionDetector, SoundTextsOfTheBundledVocabulary) {
  // Its tokens are short: the same text has some two thirds more of them than in the released vocabulary.
  const Tokenizer tokenizer = Tokenizer::load("models/stories");
  expect_sound(tokenizer, 100);
  expect_loops(tokenizer);
}

TEST(RepetitionDetector, SoundTextsOfTheReleasedVocabulary) {
  const std::filesystem::path folder = "../shared/data/tokenizer";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const Tokenizer tokenizer = Tokenizer::load(folder);
  expect_sound(tokenizer, 200);
  expect_loops(tokenizer);
}

TEST(RepetitionDetector, TheCorpusIsOneThatALesserDetectorStops) {
  // So a change that makes the defaults stricter shows in the tests above.
  const Tokenizer tokenizer = Tokenizer::load("models/stories");
  int num_stopped = 0;
  for (const auto& [name, text] : sound_texts(100))
    num_stopped += loops_after(tokenizer, text, {.min_tokens = 256}).has_value() ? 1 : 0;
  EXPECT_GT(num_stopped, 8);
}

}  // namespace
}  // namespace baleen
