#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace baleen {
namespace {

using Pieces = std::vector<std::string>;

/// Numbers in threes, then words with the character before them, then the rest, as real vocabularies have it.
const std::vector<SplitRule> kRules = {
    {"\\p{N}{1,3}", false},
    {"[^\\r\\n\\p{L}\\p{P}\\p{S}]?\\p{L}+| ?[\\p{P}\\p{S}]+|\\s+(?!\\S)|\\s+", false}};

Pieces pieces_of(const std::vector<SplitRule>& rules, std::string_view text) {
  const PreTokenizer pre_tokenizer(rules, "test");
  MatchScratch scratch(text.size());
  Pieces pieces;
  const auto gave_up =
      pre_tokenizer.split(text, scratch, [&](std::string_view piece) { pieces.emplace_back(piece); });
  if (gave_up) pieces.push_back("gave up: " + gave_up->why);
  return pieces;
}

TEST(PreTokenizer, NoRulesLeaveTheTextWhole) {
  EXPECT_EQ(pieces_of({}, "one piece 123"), (Pieces{"one piece 123"}));
  EXPECT_EQ(pieces_of({}, ""), Pieces{});
}

TEST(PreTokenizer, EachRuleCutsThePiecesOfTheOneBefore) {
  EXPECT_EQ(pieces_of(kRules, "Add 12345 to it!"), (Pieces{"Add", " ", "123", "45", " to", " it", "!"}));
}

TEST(PreTokenizer, LookAheadEndsWithThePiece) {
  // Alone, the second rule would leave the last space to the word; after the first rule it sees a piece of
  // spaces.
  EXPECT_EQ(pieces_of(kRules, "a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(pieces_of(kRules, "a   1"), (Pieces{"a", "   ", "1"}));
}

TEST(PreTokenizer, LiteralPatternsAreNotExpressions) {
  EXPECT_EQ(pieces_of({{"a.b", true}}, "axb a.b."), (Pieces{"axb ", "a.b", "."}));
  EXPECT_EQ(pieces_of({{"\u4E2D", true}}, "\u6587\u4E2D"), (Pieces{"\u6587", "\u4E2D"}));
}

TEST(PreTokenizer, LongRunsAreOnePiece) {
  for (const char* letter : {"a", " ", "-", "\n", "\u4E2D"}) {
    std::string run;
    while (run.size() < 1'000'000) run += letter;
    EXPECT_EQ(pieces_of(kRules, run).size(), 1u) << letter;
  }
}

TEST(PreTokenizer, SearchingALongRunIsNoReasonToGiveUp) {
  const std::string run(30'000'000, ' ');
  EXPECT_EQ(pieces_of({{"\\s*[\\r\\n]+|\\s+", false}}, run).size(), 1u);
}

TEST(PreTokenizer, RecursesDeeplyWithoutTheStack) {
  // A group that may be left and entered again at every letter: more stack than machine code is given.
  const std::string run(200'000, 'a');
  EXPECT_EQ(pieces_of({{"(?:a|b(?=c))+", false}}, run).size(), 1u);
}

TEST(PreTokenizer, GivesUpInsteadOfHanging) {
  const Pieces pieces = pieces_of({{"(?:a+a+)+[bc]", false}}, std::string(60, 'a'));
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_NE(pieces[0].find("gave up: the pattern \"(?:a+a+)+[bc]\" gave up: match limit exceeded"),
            std::string::npos)
      << pieces[0];
}

TEST(PreTokenizer, RefusesUnusablePatterns) {
  const auto sentence = [](const SplitRule& rule) -> std::string {
    try {
      (void)PreTokenizer({rule}, "file");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(sentence({"(a", false}),
            "file: pre_tokenizer.pretokenizers[0]: the pattern \"(a\" does not compile: missing closing "
            "parenthesis");
  const std::string empty = "can match the empty string; only patterns that consume text are supported";
  EXPECT_NE(sentence({"a*", false}).find(empty), std::string::npos);
  EXPECT_NE(sentence({"", true}).find(empty), std::string::npos);
  EXPECT_NE(sentence({"a\\Cb", false}).find("does not compile"), std::string::npos);
}

}  // namespace
}  // namespace baleen
