// What is read in one way only is repaired; the rest is left.
#include "chat/json_repair.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TEST(JsonRepair, WhatIsUnambiguous) {
  const std::pair<const char*, const char*> kCases[] = {
      {"True", "true"},
      {"[None, False]", "[null, false]"},
      {"{'a': 'it\\'s \"x\"'}", R"({"a": "it's \"x\""})"},
      {"{“a”: ‘b’}", R"({"a": "b"})"},
      {"{a: 1, $b_2: 2}", R"({"a": 1, "$b_2": 2})"},
      {"[1, 2, ]", "[1, 2]"},
      {"{\"a\": 1,}", R"({"a": 1})"},
      {"[\"a\nb\tc\"]", R"(["a\nb\tc"])"},
      {R"(["\d+ \S C:\Users"])", R"(["\\d+ \\S C:\\Users"])"},
      {R"({"a": [1, {"b": "c")", R"({"a": [1, {"b": "c"}]})"},
      {R"({"a": 1}})", R"({"a": 1})"},
      {"[1, 2],", "[1, 2]"},
      {" {\"a\" : 1.50e1} ", R"({"a": 15.0})"},
  };
  for (const auto& [text, json] : kCases)
    EXPECT_EQ(repaired_json(text), std::optional<std::string>(json)) << text;
}

TEST(JsonRepair, WhatIsNot) {
  for (const char* text :
       {"", "word", "two words", "{a b: 1}", "[1 2]", "{\"a\" 1}", "\"open", "{\"a\": \"open", "NaN",
        "[Infinity]", "01", "1.2.3", "{\"a\": }", "[,]", "(1, 2)", "+1", R"(["C:\dir\new"])"}) {
    EXPECT_EQ(repaired_json(text), std::nullopt) << text;
  }
  EXPECT_EQ(repaired_json(std::string(100000, '[')), std::nullopt);
}

TEST(JsonRepair, StrictJsonHasNoInfinities) {
  EXPECT_TRUE(read_strict_json("[1, {\"a\": -0.5e3}]"));
  for (const char* text : {"NaN", "[{\"a\": -Infinity}]", "1e999", "'a'", "{", "[1,]"}) {
    EXPECT_FALSE(read_strict_json(text)) << text;
  }
}

}  // namespace
}  // namespace baleen
