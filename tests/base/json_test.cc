// The one way into JSON: limits, places and sentences of refusals, and that nothing deep exhausts the stack.
#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace baleen {
namespace {

std::string nested(std::size_t depth, bool closed) {
  return std::string(depth, '[') + (closed ? std::string(depth, ']') : "");
}

TEST(ParseJson, ReadsValues) {
  EXPECT_EQ(parse_json(R"({"b": [1, 2.5, "x"], "a": null})").value()["b"][1], 2.5);
  EXPECT_EQ(parse_ordered_json(R"({"b": 1, "a": 2})").value().begin().key(), "b");
}

TEST(ParseJson, SaysWhereAndWhat) {
  EXPECT_TRUE(parse_json(R"({"a": })").error().starts_with("byte 6: while parsing value - unexpected '}'"))
      << parse_json(R"({"a": })").error();
  EXPECT_TRUE(parse_json("").error().starts_with("byte 0: ")) << parse_json("").error();
  EXPECT_TRUE(parse_json("[1").error().starts_with("byte 2: ")) << parse_json("[1").error();
  EXPECT_NE(parse_json("1e400").error().find("number overflow"), std::string::npos)
      << parse_json("1e400").error();
  EXPECT_FALSE(parse_json("\"\xff\"")) << "not UTF-8";
  EXPECT_LT(parse_json("[\"" + std::string(5'000'000, 'A')).error().size(), 300u);
}

TEST(ParseJson, NestingIsBounded) {
  EXPECT_TRUE(parse_json(nested(1000, true)));
  EXPECT_EQ(parse_json(nested(1001, true)).error(), "byte 1000: nested deeper than 1000 levels");
  EXPECT_FALSE(parse_json(nested(1'000'000, true)));
  EXPECT_FALSE(parse_ordered_json(nested(1'000'000, false)));
  EXPECT_FALSE(parse_json("{\"a\":" + nested(4, true), {.max_depth = 4}));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(parse_json(objects));
}

TEST(ParseJson, BracketsInStringsAreText) {
  const std::string text = "\"" + nested(5000, false) + R"(\")" + nested(5000, false) + "\"";
  EXPECT_EQ(parse_json(text).value().get<std::string>().size(), 10'001u);
}

TEST(ParseJson, SizeIsBounded) {
  EXPECT_EQ(parse_json("[1, 2, 3]", {.max_bytes = 8}).error(), "9 bytes of JSON, at most 8 are read here");
}

TEST(ParseJson, TheNumberOfValuesIsBounded) {
  EXPECT_TRUE(parse_json("[1, 2, 3]", {.max_values = 4}));
  EXPECT_EQ(parse_json("[1, 2, 3]", {.max_values = 3}).error(), "4 values, at most 3 are read here");
  EXPECT_TRUE(parse_json(R"("[1, 2, 3]")", {.max_values = 1})) << "text";
  std::string many = "[0";
  for (int i = 0; i < 5'000'000; ++i) many += ",0";
  EXPECT_EQ(parse_ordered_json(many + "]").error(), "5,000,002 values, at most 4,194,304 are read here");
}

TEST(ParseJson, CommentsWhereTheyAreAllowed) {
  EXPECT_FALSE(parse_json("[1 /* one */]"));
  EXPECT_TRUE(parse_json("[1 /* one */]", {.comments = true}));
}

}  // namespace
}  // namespace baleen
