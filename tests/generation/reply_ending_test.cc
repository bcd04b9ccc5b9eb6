// When thinking and replies end, token by token: with the bundled model's vocabulary, without a model.
#include "generation/reply_ending.h"

#include <gtest/gtest.h>

#include "chat/content_divider.h"
#include "chat/format.h"

namespace baleen {
namespace {

constexpr TokenId kEndOfText = 1;

class ReplyEndingTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { tokenizer_ = new Tokenizer(Tokenizer::load("models/stories")); }
  static void TearDownTestSuite() { delete tokenizer_; }

  static TokenId end_think() { return *tokenizer_->id_of(chat_format::kEndThink); }
  static std::vector<TokenId> tokens_of(const std::string& text) { return tokenizer_->encode(text).value(); }
  static EndingRules rules(std::optional<std::int64_t> budget) {
    return {.stops = {},
            .make_divider = content_divider(ThinkingMode::kThinking, false),
            .stop_tokens = {kEndOfText},
            .max_tokens = 10'000,
            .thinking = ThinkingLimits{.end_token = end_think(), .budget = budget}};
  }
  /// What comes of a model that wants to say `wanted`, which goes on after a forced token.
  static std::vector<TokenId> said(ReplyEnding& ending, const std::vector<TokenId>& wanted,
                                   std::string* text = nullptr) {
    std::vector<TokenId> all;
    for (std::size_t i = 0; i < wanted.size() && !ending.end();) {
      const std::optional<TokenId> forced = ending.forced();
      const TokenId token = forced ? *forced : wanted[i++];
      all.push_back(token);
      const MarkedText shown = ending.take(token);
      if (text != nullptr) *text += shown.text;
    }
    if (text != nullptr) *text += ending.finish().text;
    return all;
  }

  static Tokenizer* tokenizer_;
};
Tokenizer* ReplyEndingTest::tokenizer_ = nullptr;

TEST_F(ReplyEndingTest, AThinkingBudgetHoldsToTheToken) {
  const std::vector<TokenId> thought =
      tokens_of("The owl thinks about the old tree and the moon for a long time.");
  ASSERT_GT(thought.size(), 8u);
  for (const std::int64_t budget : {0, 1, 2, 7}) {
    ReplyEnding ending(*tokenizer_, rules(budget));
    std::vector<TokenId> want = thought;
    want.insert(want.begin() + budget, end_think());
    EXPECT_EQ(said(ending, thought), want) << budget;
    EXPECT_EQ(ending.thinking_end(), ThinkingEnd::kBudget);
    EXPECT_EQ(ending.num_tokens(), std::ssize(thought) + 1);
  }
}

TEST_F(ReplyEndingTest, ThinkingThatEndsWithinItsBudgetIsLeftAlone) {
  std::vector<TokenId> reply = tokens_of("An owl.");
  const auto budget = std::ssize(reply) + 1;
  reply.push_back(end_think());
  for (const TokenId token : tokens_of("A story of an owl who thinks and thinks and thinks."))
    reply.push_back(token);
  for (const std::optional<std::int64_t> limit : {std::optional(budget), std::optional<std::int64_t>()}) {
    ReplyEnding ending(*tokenizer_, rules(limit));
    EXPECT_EQ(said(ending, reply), reply);
    EXPECT_EQ(ending.thinking_end(), ThinkingEnd::kModel);
  }
  // A second one in the content is the model's own affair, and none is forced there.
  reply.push_back(end_think());
  ReplyEnding ending(*tokenizer_, rules(budget));
  EXPECT_EQ(said(ending, reply), reply);
}

TEST_F(ReplyEndingTest, WhatTheBudgetCutsOfACharacterIsNotShown) {
  const std::vector<TokenId> owl = tokens_of("🦉");
  ASSERT_GT(owl.size(), 1u);
  std::vector<TokenId> thought = tokens_of("An owl: ");
  const auto budget = std::ssize(thought) + 1;
  thought.insert(thought.end(), owl.begin(), owl.end());
  thought.resize(static_cast<std::size_t>(budget));
  const std::vector<TokenId> content = tokens_of("So.");
  thought.insert(thought.end(), content.begin(), content.end());
  ReplyEnding ending(*tokenizer_, rules(budget));
  std::string text;
  said(ending, thought, &text);
  EXPECT_EQ(text, "An owl: </think>So.");
}

TEST_F(ReplyEndingTest, ForcedTokensAreKnownAheadAndBehindDrafts) {
  ReplyEnding ending(*tokenizer_, rules(3));
  const std::vector<TokenId> drafts = {20, 21, 22, 23};
  const auto forced = [&](std::size_t count) { return ending.forced(std::span(drafts).first(count)); };
  EXPECT_EQ(forced(0), std::nullopt);
  EXPECT_EQ(forced(2), std::nullopt);
  EXPECT_EQ(forced(3), end_think());
  EXPECT_EQ(forced(4), std::nullopt);  // without it the drafts are wrong, and nothing follows from them
  const std::vector<TokenId> ends = {20, end_think(), 21};
  EXPECT_EQ(ending.forced(ends), std::nullopt);
  EXPECT_FALSE(ending.may_force(0));
  EXPECT_FALSE(ending.may_force(3));
  EXPECT_TRUE(ending.may_force(4));
  (void)ending.take(20);
  EXPECT_EQ(forced(2), end_think());
  EXPECT_FALSE(ending.may_force(2));
  EXPECT_TRUE(ending.may_force(3));
  (void)ending.take(end_think());
  EXPECT_EQ(forced(1), std::nullopt);
  EXPECT_FALSE(ending.may_force(100));
}

TEST_F(ReplyEndingTest, LoopsEndTheThinkingOnceAndThenTheReply) {
  EndingRules looping = rules(std::nullopt);
  looping.repetition = RepetitionLimits{.min_tokens = 60, .min_count = 3};
  ReplyEnding ending(*tokenizer_, looping);
  std::vector<TokenId> wanted;
  for (int i = 0; i < 200; ++i)
    for (const TokenId token : tokens_of("Let me call the tool. ")) wanted.push_back(token);
  std::string text;
  const std::vector<TokenId> all = said(ending, wanted, &text);
  EXPECT_EQ(std::ranges::count(all, end_think()), 1);
  EXPECT_EQ(ending.thinking_end(), ThinkingEnd::kRepetition);
  EXPECT_EQ(ending.end(), ReplyEnd::kRepetition);
  EXPECT_LT(all.size(), 300u);
  const std::size_t end = text.find("</think>");
  ASSERT_NE(end, std::string::npos);
  EXPECT_GT(end, 100u);
  EXPECT_GT(text.size() - end, 100u);  // the content is looked at by itself
  looping.repetition.reset();
  looping.max_tokens = 500;
  ReplyEnding unwatched(*tokenizer_, looping);
  EXPECT_EQ(said(unwatched, wanted).size(), 500u);
  EXPECT_EQ(unwatched.end(), ReplyEnd::kLength);
  EXPECT_EQ(unwatched.thinking_end(), ThinkingEnd::kNothing);
}

TEST_F(ReplyEndingTest, OtherEndsAreAsBefore) {
  EndingRules plain{.stops = {"moon"}, .stop_tokens = {kEndOfText}, .max_tokens = 5};
  {
    ReplyEnding ending(*tokenizer_, plain);
    std::string text;
    said(ending, tokens_of("a b c d e f g"), &text);
    EXPECT_EQ(ending.end(), ReplyEnd::kLength);
    EXPECT_EQ(ending.tokens_left(), 0);
  }
  plain.max_tokens = 100;
  {
    ReplyEnding ending(*tokenizer_, plain);
    std::string text;
    said(ending, tokens_of("The moonlight"), &text);
    EXPECT_EQ(ending.end(), ReplyEnd::kStopString);
    EXPECT_EQ(ending.stop_string(), "moon");
    EXPECT_EQ(text, "The ");
  }
  ReplyEnding ending(*tokenizer_, plain);
  std::string text;
  std::vector<TokenId> whole = tokens_of("The mo");
  whole.push_back(kEndOfText);
  EXPECT_EQ(said(ending, whole, &text), whole);
  EXPECT_EQ(ending.end(), ReplyEnd::kStopToken);
  EXPECT_EQ(text, "The mo");
}

}  // namespace
}  // namespace baleen
