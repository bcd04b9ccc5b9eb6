#include "tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <thread>
#include <vector>

#include "base/utf8.h"
#include "tests/tokenizer/small_vocabulary.h"

namespace baleen {
namespace {

using Ids = std::vector<TokenId>;

/// 256 "th", 257 "the", 258 " the"; 300 "<s>" and 301 "<think>" are added, 302 "the" is not in the base
/// vocabulary.
Tokenizer small() {
  nlohmann::json json = small_vocabulary({{"t", "h"}, {"th", "e"}, {" ", "the"}});
  json["added_tokens"] = {added_token(300, "<s>", true, false), added_token(301, "<think>", false, true),
                          added_token(302, "s><", false, true)};
  nlohmann::json& steps = json["pre_tokenizer"]["pretokenizers"];
  steps.insert(steps.begin(), split("Regex", " ?\\p{L}+"));
  return Tokenizer::parse(json.dump(), "test");
}

TEST(Tokenizer, MergesWithinPieces) {
  EXPECT_EQ(small().encode("the the").value(), (Ids{257, 258}));
  EXPECT_EQ(small().encode("t-he").value(), (Ids{'t', '-', 'h', 'e'}));
  EXPECT_EQ(small().encode("").value(), Ids{});
}

TEST(Tokenizer, RepeatedPiecesGetTheSameIds) {
  std::string text;
  Ids expected;
  for (int i = 0; i < 5000; ++i) {
    text += " the";
    expected.push_back(258);
    std::string rare(2 + i % 7, static_cast<char>('a' + i % 26));
    rare[0] = ' ';
    text += rare;
    expected.insert(expected.end(), rare.begin(), rare.end());
  }
  EXPECT_EQ(small().encode(text).value(), expected);
}

TEST(Tokenizer, AddedTokensAreFoundInRawText) {
  EXPECT_EQ(small().encode("the<s>the<think>").value(), (Ids{257, 300, 257, 301}));
  EXPECT_EQ(small().encode("<s").value(), (Ids{'<', 's'}));
  EXPECT_EQ(small().encode("<s><s>").value(), (Ids{300, 300}))
      << "\"s><\" is of the second kind: it sees only what the first kind left";
  EXPECT_EQ(small().encode("as><").value(), (Ids{'a', 302}));
}

TEST(Tokenizer, DecodesAddedTokensAsText) {
  EXPECT_EQ(small().decode(Ids{300, 258, 301}), "<s> the<think>");
  EXPECT_EQ(small().decode(Ids{}), "");
  EXPECT_EQ(small().decode(Ids{'a', 299, -1, 1'000'000, 'b'}), "ab") << "ids without a token are nothing";
}

TEST(Tokenizer, InvalidBytesBecomeReplacements) {
  EXPECT_EQ(small().decode(Ids{0xE2, 0x82, 0xAC, 0xE2, 0x82, 'x', 0xFF, 0xF0, 0x9F}),
            "\u20AC\uFFFDx\uFFFD\uFFFD");
}

TEST(Tokenizer, InvalidTextIsAFailureThatNamesTheByte) {
  const auto result = small().encode("the\xFFthe");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error(), "text is not valid UTF-8 at byte 3 (0xFF)");
}

TEST(Tokenizer, PatternsThatGiveUpNameTheByte) {
  nlohmann::json json = small_vocabulary({});
  nlohmann::json& steps = json["pre_tokenizer"]["pretokenizers"];
  steps.insert(steps.begin(), split("Regex", "x|(?:a+a+)+[bc]"));
  const auto result = Tokenizer::parse(json.dump(), "test").encode(std::string("x").append(60, 'a'));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().rfind("text at byte 1: the pattern \"x|(?:a+a+)+[bc]\" gave up: ", 0), 0u)
      << result.error();
}

TEST(Tokenizer, ControlCharactersAreText) {
  const std::string text("\0\x01\x7F\0", 4);
  EXPECT_EQ(small().encode(text).value(), (Ids{0, 1, 0x7F, 0}));
  EXPECT_EQ(small().decode(small().encode(text).value()), text);
}

TEST(Tokenizer, TellsAboutItsTokens) {
  const Tokenizer tokenizer = small();
  EXPECT_EQ(tokenizer.vocab_size(), 303);
  EXPECT_EQ(tokenizer.bytes_of(258), " the");
  EXPECT_EQ(tokenizer.bytes_of(0xE9), "\xE9") << "bytes, not characters";
  EXPECT_EQ(tokenizer.bytes_of(299), "");
  EXPECT_TRUE(tokenizer.contains(0));
  EXPECT_FALSE(tokenizer.contains(299));
  EXPECT_FALSE(tokenizer.contains(303));
  EXPECT_FALSE(tokenizer.contains(-1));
  EXPECT_EQ(tokenizer.id_of("<think>"), 301);
  EXPECT_EQ(tokenizer.id_of("<s>"), 300);
  EXPECT_EQ(tokenizer.id_of("the"), std::nullopt) << "not an added token";
  EXPECT_TRUE(tokenizer.is_special(300));
  EXPECT_FALSE(tokenizer.is_special(301));
  EXPECT_FALSE(tokenizer.is_special(9999));
}

TEST(Tokenizer, LongRunsFinish) {
  const Tokenizer tokenizer = Tokenizer::load("models/stories");
  for (const char* letter : {"a", " ", "=", "\n", "1", "<", "\u4E2D", "\u0301"}) {
    std::string run;
    while (run.size() < 1'000'000) run += letter;
    const auto ids = tokenizer.encode(run);
    ASSERT_TRUE(ids.ok()) << letter;
    EXPECT_EQ(tokenizer.decode(ids.value()), run) << letter;
  }
}

TEST(Tokenizer, DecodingUndoesEncoding) {
  const Tokenizer tokenizer = Tokenizer::load("models/stories");
  EXPECT_TRUE(rc::check([&](const std::vector<std::uint32_t>& numbers) {
    std::string text;
    for (const std::uint32_t number : numbers) {
      // Every length of character in about equal parts; surrogates come out as U+FFFD.
      const std::uint32_t limits[] = {0x80, 0x800, 0x10000, 0x110000};
      std::string character;
      std::uint32_t c = number / 4 % limits[number % 4];
      if (c < 0x80) {
        character = {static_cast<char>(c)};
      } else if (c < 0x800) {
        character = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
      } else if (c < 0x10000) {
        character = {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
                     static_cast<char>(0x80 | (c & 0x3F))};
      } else {
        character = {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3F)),
                     static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
      }
      append_as_utf8(character, text);
    }
    const auto ids = tokenizer.encode(text);
    RC_ASSERT(ids.ok());
    RC_ASSERT(tokenizer.decode(ids.value()) == text);
    std::string joined;
    for (const TokenId id : ids.value()) joined += tokenizer.bytes_of(id);
    RC_ASSERT(joined == text);
  }));
}

TEST(Tokenizer, ThreadsShareIt) {
  const Tokenizer tokenizer = Tokenizer::load("models/stories");
  const auto text_of = [](int thread) {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += fmt::format("The hedgehog walked {} steps. ", i * thread);
    return text;
  };
  std::vector<Ids> together(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { together[i] = tokenizer.encode(text_of(i)).value(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(together[i], tokenizer.encode(text_of(i)).value());
}

}  // namespace
}  // namespace baleen
