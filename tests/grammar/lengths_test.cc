// Patterns and formats with bounds of length: every text is accepted by the grammar exactly if a
// backtracking matcher finds the pattern in it and its length is within the bounds; and what masks lead to
// is such a text.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "grammar/char_automaton.h"
#include "grammar/grammar.h"
#include "tests/grammar/pattern_matcher.h"
#include "tests/grammar/walks.h"

namespace baleen {
namespace {

PythonJson number(std::uint64_t value) { return PythonJson(PythonJson::Number{std::to_string(value)}); }

PythonJson string_schema(const std::string& pattern, std::uint64_t least, std::uint64_t most) {
  return PythonJson::Object{
      {"type", "string"}, {"pattern", pattern}, {"minLength", number(least)}, {"maxLength", number(most)}};
}

struct Bounded {
  std::string pattern;
  std::uint64_t least = 0, most = 0;
};

/// As schema libraries and public tool servers write them.
const std::vector<Bounded> kUsual = {
    {R"(^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$)", 1, 253},
    {R"(^https?://)", 0, 2048},
    {R"(^arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:[0-9]{12}:.+$)", 20, 2048},
    {R"(\S)", 1, 5000},
    {R"(^/.+$)", 0, 4096},
    {R"(^[a-z0-9][a-z0-9_-]*$)", 1, 80},
    {R"(^[\s\S]*$)", 1, 65536},
    {R"(^[A-Za-z0-9+/]*={0,2}$)", 4, 100000},
    // zod: e-mail addresses of two versions, host names, durations, base64, telephone numbers.
    {R"(^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$)", 6,
     254},
    {R"(^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)"
     R"((?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$)",
     0, 253},
    {R"(^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$)", 0,
     40},
    {R"(^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$)", 0, 1000},
    {R"(^\+[1-9]\d{6,14}$)", 0, 20},
    // pydantic: decimals.
    {R"(^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$)", 0, 30},
    {R"(^(?!^[-+.]*$)[+-]?0*(?:\d{0,3}|(?=[\d.]{1,6}0*$)\d{0,3}\.\d{0,2}0*$))", 0, 12},
    // GitHub: names of users and repositories; labels of hosts.
    {R"(^[a-z\d](?:[a-z\d]|-(?=[a-z\d])){0,38}$)", 1, 39},
    {R"(^(?!-)(?!.*--)[A-Za-z0-9-]{1,39}(?<!-)$)", 1, 39},
    {R"(^(?!\.{1,2}$)[\w.-]{1,100}$)", 0, 100},
    {R"(^(?!aws:).{1,128}$)", 0, 128},
    {R"(^(?!-)[a-z0-9-]{1,63}(?<!-)$)", 0, 63},
    {R"(^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,64}$)", 0, 64},
    {R"(^[a-zA-Z0-9_-]{1,2048}$)", 0, 1000},
};

TEST(Lengths, UsualPatternsAreHeldWithAnyBounds) {
  std::mt19937 random(3);
  for (const Bounded& usual : kUsual) {
    const PatternMatcher matcher(usual.pattern);
    for (const auto& [least, most] :
         {std::pair(usual.least, usual.most), std::pair(usual.most / 2, usual.most),
          std::pair(std::uint64_t{0}, std::uint64_t{9})}) {
      const Result<Grammar> grammar = json_schema_grammar(string_schema(usual.pattern, least, most));
      const bool can_be_empty_set = least == 0 && most == 9;  // some patterns have no text so short
      if (can_be_empty_set && !grammar.ok()) continue;
      ASSERT_TRUE(grammar.ok()) << usual.pattern << ": " << grammar.error();
      if (least > 3000) continue;  // walks would take long
      for (int i = 0; i < 3; ++i) {
        const std::string reply =
            random_reply(ReplyConstraint({.body = ReplyRules::Body::kGrammar, .grammar = grammar.value()},
                                         bundled_vocabulary().masks),
                         bundled_vocabulary(), random, false);
        const std::string text = *json(reply).as_string();
        const std::size_t size = to_characters(text).size();
        EXPECT_TRUE(matcher.finds(text).value_or(true)) << usual.pattern << ": " << text;
        EXPECT_TRUE(size >= least && size <= most) << usual.pattern << ": " << size << ": " << text;
      }
    }
  }
}

TEST(Lengths, FormatsAreHeldWithBounds) {
  std::mt19937 random(4);
  for (const char* format :
       {"uri", "email", "hostname", "ipv4", "ipv6", "date", "time", "date-time", "duration", "uuid"}) {
    const PythonJson schema = PythonJson::Object{
        {"type", "string"}, {"format", format}, {"minLength", number(7)}, {"maxLength", number(2083)}};
    const Result<Grammar> grammar = json_schema_grammar(schema);
    ASSERT_TRUE(grammar.ok()) << format << ": " << grammar.error();
    const Grammar any =
        json_schema_grammar(PythonJson::Object{{"type", "string"}, {"format", format}}).value();
    for (int i = 0; i < 3; ++i) {
      const std::string reply =
          random_reply(ReplyConstraint({.body = ReplyRules::Body::kGrammar, .grammar = grammar.value()},
                                       bundled_vocabulary().masks),
                       bundled_vocabulary(), random, false);
      EXPECT_TRUE(accepts_text(any, reply)) << reply;
      EXPECT_TRUE(reply.size() >= 9 && reply.size() <= 2085) << reply;
    }
  }
}

std::string some_pattern(std::mt19937& random) {
  static const std::vector<std::string> kAtoms = {
      "a", "b", "[ab]", "(?:ab)", "\\d", "(?:a|bb)", "(?!b).", "a(?=[b1])", "(?:1-)", "[^1]", "(?<!a)b", "é"};
  static const std::vector<std::string> kCounts = {"",    "",      "*",    "+",      "?",
                                                   "{2}", "{1,3}", "{3,}", "{2,40}", "{30}"};
  std::string pattern = random() % 3 != 0 ? "^" : "";
  for (std::size_t parts = 1 + random() % 3; parts > 0; --parts) {
    const std::string& atom = kAtoms[random() % kAtoms.size()];
    pattern += "(?:" + atom + ")" + kCounts[random() % kCounts.size()];
  }
  return random() % 3 != 0 ? pattern + "$" : pattern;
}

TEST(Lengths, RandomPatternsAreHeldExactly) {
  std::mt19937 random(5);
  const std::vector<std::string> letters = {"a", "a", "b", "b", "1", "-", "é"};
  const WalkVocabulary vocabulary = random_vocabulary(6);
  int num_accepted = 0, num_refused = 0, num_complex = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string pattern = some_pattern(random);
    const std::uint64_t least = random() % 3 == 0 ? 0 : random() % 8;
    const std::uint64_t most = random() % 3 == 0 ? 100 : least + random() % 8;
    const Result<Grammar> grammar = json_schema_grammar(string_schema(pattern, least, most));
    if (!grammar.ok() && grammar.error().find("too complex") != std::string::npos) {
      ++num_complex;
      continue;
    }
    const PatternMatcher matcher(pattern);
    for (int k = 0; k < 120; ++k) {
      std::string text;
      const std::string& one = letters[random() % letters.size()];
      const bool is_even = random() % 2 == 0;
      const std::size_t size = random() % (random() % 4 == 0 ? 45 : 9);
      for (std::size_t at = 0; at < size; ++at) text += is_even ? one : letters[random() % letters.size()];
      const std::optional<bool> is_found = matcher.finds(text);
      if (!is_found) continue;
      const bool fits = *is_found && size >= least && size <= most;
      ++(fits ? num_accepted : num_refused);
      const bool is_accepted = grammar.ok() && accepts_text(grammar.value(), "\"" + text + "\"");
      ASSERT_EQ(is_accepted, fits) << pattern << " of " << least << " to " << most << ": " << text;
    }
    if (!grammar.ok() || i % 4 != 0) continue;
    const std::string reply = random_reply(
        ReplyConstraint({.body = ReplyRules::Body::kGrammar, .grammar = grammar.value()}, vocabulary.masks),
        vocabulary, random, true);
    const std::string text = *json(reply).as_string();
    const std::size_t size = to_characters(text).size();
    EXPECT_TRUE(matcher.finds(text).value_or(true) && size >= least && size <= most)
        << pattern << " of " << least << " to " << most << ": " << text;
  }
  EXPECT_GT(num_accepted, 1000);
  EXPECT_GT(num_refused, 1000);
  EXPECT_LT(num_complex, 20);
}

TEST(Lengths, CountersNest) {
  const PythonJson schema = json(R"({"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "array",
      "maxItems": 2, "items": {"type": "string", "pattern": "^(ab)+$", "minLength": 3, "maxLength": 5}}})");
  const Grammar grammar = json_schema_grammar(schema).value();
  EXPECT_TRUE(accepts_text(grammar, R"([["abab", "abab"], []])"));
  EXPECT_TRUE(accepts_text(grammar, R"([["abab"], ["abab"], ["abab"]])"));
  EXPECT_FALSE(accepts_text(grammar, R"([["abab", "ab"], []])"));
  EXPECT_FALSE(accepts_text(grammar, R"([["abab", "ababab"], []])"));
  EXPECT_FALSE(accepts_text(grammar, R"([["abab", "abab", "abab"], []])"));
  EXPECT_FALSE(accepts_text(grammar, R"([["abab"]])"));
}

TEST(Lengths, WhatCannotBeCountedIsLeftOutByName) {
  // At every second count another state may be entered.
  const PythonJson schema = string_schema("^(ab)*$", 900'000'000, 900'000'000);
  EXPECT_FALSE(json_schema_grammar(schema).ok());
  std::vector<Unheld> unheld;
  ASSERT_TRUE(json_schema_grammar(schema, &unheld).ok());
  ASSERT_EQ(unheld.size(), 1U);
  EXPECT_EQ(unheld[0].keyword, "pattern");
  EXPECT_EQ(unheld[0].sentence,
            "schema: its rules and lengths together are too complex; simpler ones may help");
}

}  // namespace
}  // namespace baleen
