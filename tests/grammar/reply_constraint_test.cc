#include "grammar/reply_constraint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "chat/format.h"
#include "grammar/mask_vocabulary.h"
#include "tests/grammar/walks.h"
#include "tests/tokenizer/small_vocabulary.h"

namespace baleen {
namespace {

using Body = ReplyRules::Body;
using namespace chat_format;

/// Feeds the tokens of a text, as the tokenizer divides it.
bool feed(ReplyConstraint& constraint, const WalkVocabulary& vocabulary, std::string_view text) {
  const std::vector<TokenId> ids = vocabulary.tokenizer.encode(text).value();
  return std::ranges::all_of(ids, [&](TokenId id) { return constraint.accept(id); });
}

Grammar weather_grammar() {
  const std::vector<ToolGrammar> tools = {
      {"weather",
       json(R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})")}};
  return tool_calls_grammar(tools, true).value();
}

TEST(ReplyConstraint, FreeRepliesAreNeverMasked) {
  const WalkVocabulary& vocabulary = bundled_vocabulary();
  ReplyConstraint constraint({.starts_in_reasoning = true}, vocabulary.masks);
  TokenMask mask;
  for (const std::string_view text :
       {"so", "</think>", "Hello", "\n\n<｜DSML｜tool_calls>x", "<｜end▁of▁sentence｜>", "more"}) {
    EXPECT_FALSE(constraint.fill(mask));
    EXPECT_TRUE(feed(constraint, vocabulary, text));
  }
  EXPECT_FALSE(constraint.fill(mask));
}

TEST(ReplyConstraint, ReasoningMayNotEndTheReplyWhereABodyIsRequired) {
  const WalkVocabulary& vocabulary = bundled_vocabulary();
  ReplyConstraint constraint(
      {.starts_in_reasoning = true, .body = Body::kGrammar, .grammar = json_object_grammar()},
      vocabulary.masks);
  TokenMask mask;
  ASSERT_TRUE(constraint.fill(mask));
  const TokenId end = vocabulary.masks->end_token(), end_think = *vocabulary.tokenizer.id_of(kEndThink);
  EXPECT_FALSE(allows(mask, end));
  EXPECT_TRUE(allows(mask, end_think));
  EXPECT_TRUE(mask_is_exact(constraint));
  EXPECT_FALSE(constraint.accept(end));
  EXPECT_TRUE(feed(constraint, vocabulary, "Let me think.\n</think>{\"a\": "));
  EXPECT_TRUE(mask_is_exact(constraint));
  EXPECT_TRUE(feed(constraint, vocabulary, "1}"));
  ASSERT_TRUE(constraint.fill(mask));
  TokenMask only_end(mask.size());
  allow(only_end, end);
  EXPECT_EQ(mask, only_end);
  EXPECT_TRUE(constraint.accept(end));
  EXPECT_TRUE(mask_is_exact(constraint));
}

TEST(ReplyConstraint, BlockInAFreeReplyIsHeldToTheGrammar) {
  const WalkVocabulary& vocabulary = bundled_vocabulary();
  TokenMask mask;
  for (const std::string text : {"Let me look.\n\n<", "<", "see <\n<"}) {
    ReplyConstraint constraint({.body = Body::kFree, .grammar = weather_grammar()}, vocabulary.masks);
    EXPECT_TRUE(feed(constraint, vocabulary, text));
    EXPECT_FALSE(constraint.fill(mask)) << text;
    EXPECT_EQ(constraint.forced_bytes(), "");
    EXPECT_TRUE(constraint.accept(*vocabulary.tokenizer.id_of(kDsml)));
    EXPECT_TRUE(constraint.fill(mask)) << text;
    EXPECT_EQ(
        constraint.forced_bytes(),
        "tool_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">");
    EXPECT_TRUE(feed(constraint, vocabulary, constraint.forced_bytes()));
    EXPECT_TRUE(mask_is_exact(constraint));
    EXPECT_TRUE(feed(constraint, vocabulary, "Oslo</"));
    ReplyConstraint trial = constraint;
    EXPECT_TRUE(feed(trial, vocabulary, "p>"));
    EXPECT_TRUE(feed(constraint, vocabulary, "｜DSML｜"));
    EXPECT_EQ(constraint.forced_bytes(), "parameter>\n</｜DSML｜invoke>\n<");
    EXPECT_FALSE(constraint.accept(vocabulary.masks->end_token()));
    EXPECT_TRUE(feed(constraint, vocabulary, "parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"));
    ASSERT_TRUE(constraint.fill(mask));
    EXPECT_TRUE(allows(mask, vocabulary.masks->end_token()));
    EXPECT_TRUE(mask_is_exact(constraint));
  }
}

TEST(ReplyConstraint, OnlyTheTokenBeginsABlock) {
  const WalkVocabulary& vocabulary = bundled_vocabulary();
  ReplyConstraint constraint({.body = Body::kFree, .grammar = weather_grammar()}, vocabulary.masks);
  TokenMask mask;
  MarkedText spelled;
  spelled.add_text("One writes <｜DSML｜tool_calls>.");
  const std::vector<TokenId> ids = vocabulary.tokenizer.encode(spelled).value();
  for (const TokenId id : ids) EXPECT_TRUE(constraint.accept(id));
  EXPECT_FALSE(constraint.fill(mask));
  EXPECT_TRUE(constraint.accept(*vocabulary.tokenizer.id_of(kDsml)));
  EXPECT_TRUE(constraint.fill(mask));
  EXPECT_TRUE(constraint.forced_bytes().starts_with("tool_calls>\n"));
}

TEST(ReplyConstraint, ForbiddenCallsCannotBegin) {
  const WalkVocabulary& vocabulary = bundled_vocabulary();
  const TokenId calls = *vocabulary.tokenizer.id_of(kDsml), end = vocabulary.masks->end_token();
  ReplyConstraint free({.starts_in_reasoning = true, .forbids_calls = true}, vocabulary.masks);
  ReplyConstraint json_body({.starts_in_reasoning = true,
                             .body = Body::kGrammar,
                             .grammar = json_object_grammar(),
                             .forbids_calls = true},
                            vocabulary.masks);
  for (ReplyConstraint* constraint : {&free, &json_body}) {
    TokenMask mask;
    for (const std::string_view text : {"so", "</think>"}) {  // in reasoning, then after it
      EXPECT_TRUE(feed(*constraint, vocabulary, text));
      ASSERT_TRUE(constraint->fill(mask)) << text;
      EXPECT_FALSE(allows(mask, calls)) << text;
      EXPECT_EQ(allows(mask, end), constraint == &free) << text;
      EXPECT_TRUE(mask_is_exact(*constraint)) << text;
      EXPECT_FALSE(constraint->accept(calls)) << text;
    }
  }
}

TEST(ReplyConstraint, ControlTokensAreNoText) {
  const WalkVocabulary& vocabulary = bundled_vocabulary();
  ReplyConstraint constraint(
      {.body = Body::kGrammar, .grammar = json_schema_grammar(json("{\"type\": \"string\"}")).value()},
      vocabulary.masks);
  EXPECT_TRUE(feed(constraint, vocabulary, "\"a"));
  TokenMask mask;
  ASSERT_TRUE(constraint.fill(mask));
  for (const std::string_view text : {kBos, kEos, kUser, kAssistant, kThink, kEndThink, kDsml})
    EXPECT_FALSE(allows(mask, *vocabulary.tokenizer.id_of(text))) << text;
}

TEST(ReplyConstraint, CopiesGoTheirOwnWays) {
  const WalkVocabulary vocabulary = random_vocabulary(7);
  ReplyConstraint constraint({.body = Body::kGrammar, .grammar = json_object_grammar()}, vocabulary.masks);
  EXPECT_TRUE(feed(constraint, vocabulary, "{\"a\": ["));
  ReplyConstraint copy = constraint;
  EXPECT_TRUE(feed(copy, vocabulary, "1, 2]}"));
  EXPECT_TRUE(copy.accept(vocabulary.masks->end_token()));
  EXPECT_TRUE(feed(constraint, vocabulary, "\"x\"]"));
  EXPECT_FALSE(constraint.accept(']'));
  EXPECT_TRUE(feed(constraint, vocabulary, "}"));
}

TEST(ReplyConstraint, MasksNearTheDepthLimitAreExact) {
  const WalkVocabulary vocabulary = random_vocabulary(8);
  ReplyConstraint constraint({.body = Body::kGrammar, .grammar = json_object_grammar()}, vocabulary.masks);
  EXPECT_TRUE(feed(constraint, vocabulary, "{\"a\":"));
  int depth = 0;
  for (; constraint.accept('['); ++depth) {
    if (depth > 55) {
      EXPECT_TRUE(mask_is_exact(constraint)) << depth;
    }
  }
  EXPECT_GE(depth, 60);
  EXPECT_TRUE(mask_is_exact(constraint));
}

TEST(MaskVocabulary, IncompleteVocabulariesAreRefused) {
  const auto load = [](nlohmann::json file) {
    return make_mask_vocabulary(Tokenizer::parse(file.dump(), "test"), 300);
  };
  nlohmann::json file = small_vocabulary({});
  EXPECT_THROW(load(file), Error);  // no end token
  file["added_tokens"].push_back(added_token(256, std::string(kEos), true, false));
  EXPECT_THROW(load(file), Error);  // no </think>
  file["added_tokens"].push_back(added_token(257, std::string(kEndThink), false, false));
  EXPECT_NO_THROW(load(file));
  EXPECT_THROW(make_mask_vocabulary(Tokenizer::parse(file.dump(), "test"), 20), Error);
  file["added_tokens"].push_back(added_token('q', "q", true, false));
  EXPECT_THROW(load(file), Error);  // no ordinary q
}

TEST(MaskVocabulary, ReleasedVocabularyGivesExactMasks) {
  const std::filesystem::path folder = "../shared/data/tokenizer";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  Tokenizer tokenizer = Tokenizer::load(folder);
  auto masks = make_mask_vocabulary(tokenizer, 129'280);
  const WalkVocabulary vocabulary{std::move(tokenizer), std::move(masks)};
  ReplyConstraint constraint({.body = Body::kToolCalls, .grammar = weather_grammar()}, vocabulary.masks);
  for (const std::string_view text :
       {"", "\n\n<｜DSML｜tool_calls>\n",
        "<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">", "Os",
        "lo <"}) {
    EXPECT_TRUE(feed(constraint, vocabulary, text)) << text;
    EXPECT_TRUE(mask_is_exact(constraint)) << text;
  }
}

}  // namespace
}  // namespace baleen
