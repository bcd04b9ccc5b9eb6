#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace baleen {
namespace {

AddedTokens tokens() {
  return {{{1, "<a>", false, false},
           {2, "<ab>", false, false},
           {3, "<a><", false, false},
           {4, "b", false, false}},
          "test"};
}

TEST(AddedTokens, LeftmostThenLongest) {
  const auto match = tokens().find("x<a><ab>", 0);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->begin, 1u);
  EXPECT_EQ(match->size, 4u);
  EXPECT_EQ(match->id, 3);
  const auto next = tokens().find("x<a><ab>", 5);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->begin, 6u) << "\"<\" belongs to the match before, so what is left is \"ab>\"";
  EXPECT_EQ(next->id, 4);
}

TEST(AddedTokens, BeginningsAreNotMatches) {
  EXPECT_FALSE(tokens().find("<a <<a<", 0));
  EXPECT_FALSE(tokens().find("", 0));
  EXPECT_FALSE(AddedTokens({}, "test").find("anything", 0));
}

TEST(AddedTokens, WholeTexts) {
  EXPECT_EQ(tokens().id_of("<ab>"), 2);
  EXPECT_EQ(tokens().id_of("<a"), std::nullopt);
  EXPECT_EQ(tokens().id_of("<ab>x"), std::nullopt);
  EXPECT_EQ(tokens().id_of(""), std::nullopt);
}

TEST(AddedTokens, RefusesTheSameTextTwice) {
  EXPECT_THROW(AddedTokens({{1, "x", false, false}, {2, "x", false, false}}, "test"), Error);
}

}  // namespace
}  // namespace baleen
