// Patterns against PCRE2, bounded numbers against comparison, characters against UTF-8.
#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "grammar/number_range.h"
#include "grammar/pattern.h"
#include "tests/grammar/pattern_matcher.h"

namespace baleen {
namespace {

TEST(Pattern, AgreesWithAMatcherThatTriesEverything) {
  const std::vector<std::string> patterns = {
      "a",
      "^a",
      "a$",
      "^a|b$",
      "^(a|b)*c$",
      "^a{2,3}b?$",
      "[^ab]",
      "^[a-c1]+$",
      "\\d+x",
      "^\\w\\s\\w$",
      "^(?:ab){2}",
      "a.c",
      "^a*?b+?$",
      "^(a|ab)(c|bcd)$",
      "^$",
      "^(|a)b$",
      "[\\]\\-a]",
      "^\\x61\\u0062$",
      "^(a+)+$",
      "^[^\\d\\s]{3}$",
      "a{0}b",
      "^(a$|b$)",
      "\\W",
      // Anchors and boundaries anywhere.
      "a^b",
      "(a$)b",
      "(^a|^b)c",
      "(^a)b",
      "(?:^|-)a(?:$|-)",
      "\\ba\\b",
      "a\\B",
      "^(a|$)",
      "\\Aab\\z",
      // Flags, names, comments, controls.
      "(?i)aB",
      "^(?i:A)b$",
      "(?s)a.c",
      "^(?P<x>a)(?<y>b)$",
      "a(?#what)b",
      "\\cJ",
      // Looks ahead and behind.
      "^(?!a)",
      "^(?=.*1)(?=.*a)[a-z1]+$",
      "^(?:a|-(?=a)){1,4}$",
      "a(?=b)",
      "a(?!b)",
      "^(?!.*--)",
      "(?<!-)$",
      "^(?!-)[a1-]{1,3}(?<!-)$",
      "(?<=a)b",
      "(?<!a)b",
      "^(?!^[-.]*$)[-]?a*\\.?a*$",
      "^(?=(?!b)[ab])\\w+$",
      "^(?!(?=a)a)",
      "(?=a\\b)",
      "(?!\\ba\\b)b?",
      "(?=$)",
      "^(?=.{2,3}$)(a|-a)*$",
      "(?<=^|-)a",
      "(?<![ab])-",
      // Long repetitions, which become lengths.
      "^a{30,40}$",
      "^b?a{3,28}$",
      "^(?:$|a{26,30}$)",
      "^(?=.{2,29}$)a+b*$",
      "^.{0,30}$",
      "^(?:ab){1,25}c$",
      "^(?!b)[ab]{1,30}$",
      "^1{27}$",
      "^(a|b{2}){25,30}$",
      "^(?:^a{25,}|b)$",
      "^a{1,30}b{1,30}$",
  };
  std::mt19937 random(1);
  const std::string alphabet = "aabbcd1 -]x.B\n";
  for (const std::string& pattern : patterns) {
    const Result<TextSet> texts = compile_pattern(pattern);
    ASSERT_TRUE(texts.ok()) << pattern << ": " << texts.error();
    const PatternMatcher oracle(pattern);
    for (int i = 0; i < 600; ++i) {
      std::string text;
      const bool is_long = i % 3 == 0;  // of one or two characters, so that long repetitions are met
      const char one = alphabet[random() % 3], two = alphabet[random() % alphabet.size()];
      for (std::size_t size = random() % (is_long ? 60 : 7); text.size() < size;)
        text += !is_long ? alphabet[random() % alphabet.size()] : random() % 40 == 0 ? two : one;
      const std::optional<bool> is_found = oracle.finds(text);
      if (!is_found) continue;
      EXPECT_EQ(accepts(texts.value(), to_characters(text)), *is_found) << pattern << " on " << text;
    }
  }
}

/// Of everything that patterns have, at random.
std::string random_pattern(std::mt19937& random, int depth) {
  const auto inner = [&] { return random_pattern(random, depth - 1); };
  const auto pick = [&](std::initializer_list<const char*> list) {
    return std::string(list.begin()[random() % list.size()]);
  };
  switch (depth == 0 ? random() % 3 : random() % 14) {
    case 0:
    case 1:
      return pick({"a", "b", "1", "-", "\\."});
    case 2:
      return pick({"[ab]", "[^a]", "\\w", "\\d", ".", "[a-]", "\\s", "[^-.]"});
    case 3:
    case 4:
    case 5:
      return inner() + inner();
    case 6:
      return "(?:" + inner() + "|" + inner() + ")";
    case 7:
    case 8:
      return "(?:" + inner() + ")" + pick({"*", "+", "?", "{2}", "{0,3}", "{1,30}", "{2,}", "*?"});
    case 9:
      return "(?=" + inner() + ")" + inner();
    case 10:
      return "(?!" + inner() + ")" + inner();
    case 11:
      return pick({"(?<=a)", "(?<!-)", "(?<=[ab]|--)", "(?<!1a)"}) + inner();
    case 12:
      return pick({"^", "$", "\\b", "\\B"}) + inner();
    default:
      return inner() + pick({"$", "\\b", "(?!a)"});
  }
}

TEST(Pattern, RandomOnesAgreeWithAMatcherThatTriesEverything) {
  std::mt19937 random(7);
  const std::string alphabet = "aaabb1-. ";
  int num_compiled = 0, num_compared = 0;
  for (int i = 0; i < 700; ++i) {
    std::string pattern = random_pattern(random, 4);
    if (random() % 2 == 0) pattern = "^" + pattern + "$";
    const Result<TextSet> texts = compile_pattern(pattern);
    if (!texts.ok()) continue;  // too complex
    ++num_compiled;
    const PatternMatcher oracle(pattern);
    for (int k = 0; k < 60; ++k) {
      std::string text;
      for (std::size_t size = random() % 9; text.size() < size;) text += alphabet[random() % alphabet.size()];
      const std::optional<bool> is_found = oracle.finds(text);
      if (!is_found) continue;
      ++num_compared;
      ASSERT_EQ(accepts(texts.value(), to_characters(text)), *is_found) << pattern << " on " << text;
    }
  }
  EXPECT_GT(num_compiled, 600);
  EXPECT_GT(num_compared, 600 * 55);
}

TEST(Pattern, WhatIsNotRegularIsRefused) {
  for (const char* pattern :
       {"(",        ")",           "[",     "a**b(", "*",      "\\1",           "(?<!(?=a))",
        "(?<=a$)",  "(?!(?<=a)b)", "a++",   "(?>a)", "(?=a)*", "\\p{Nonsense}", "a{3,2}",
        "a{99999}", "\\",          "\\u12", "[b-a]", "(?x)a",  "(?P=n)",        "\\k<n>",
        "(?i"}) {
    EXPECT_FALSE(compile_pattern(pattern).ok()) << pattern;
  }
}

TEST(NumberRange, AgreesWithComparison) {
  std::mt19937 random(2);
  const auto some_number = [&] {
    std::string text = random() % 2 == 0 ? "-" : "";
    text += std::to_string(random() % (random() % 2 == 0 ? 12 : 1200));
    if (random() % 2 == 0) text += "." + std::to_string(random() % 100);
    return text;
  };
  for (int i = 0; i < 300; ++i) {
    const std::string least = some_number(), most = some_number();
    NumberBounds bounds;
    if (random() % 4 != 0) bounds.least = {*parse_decimal(least), random() % 2 == 0};
    if (random() % 4 != 0) bounds.most = {*parse_decimal(most), random() % 2 == 0};
    const CharAutomaton automaton = bounded_number(bounds, false);
    for (int k = 0; k < 100; ++k) {
      const std::string text = k == 0 ? least : k == 1 ? most : some_number();
      const double x = std::stod(text), low = std::stod(least), high = std::stod(most);
      const bool above = !bounds.least || x > low || (x == low && !bounds.least->exclusive);
      const bool below = !bounds.most || x < high || (x == high && !bounds.most->exclusive);
      EXPECT_EQ(accepts(automaton, to_characters(text)), above && below)
          << text << " in " << least << " to " << most;
    }
  }
}

TEST(NumberRange, ReadsDecimals) {
  const auto text = [](std::string_view number) {
    const std::optional<Decimal> d = parse_decimal(number);
    return d ? (d->negative ? "-" : "") + d->whole + "." + d->fraction : "none";
  };
  EXPECT_EQ(text("0"), ".");
  EXPECT_EQ(text("-0.0"), ".");
  EXPECT_EQ(text("12.50"), "12.5");
  EXPECT_EQ(text("1e+16"), "10000000000000000.");
  EXPECT_EQ(text("-2.5e-3"), "-.0025");
  EXPECT_EQ(text("1e300"), "none");
  EXPECT_EQ(text("NaN"), "none");
}

TEST(CharAutomaton, WordsAreLeftOut) {
  const CharAutomaton without = *without_word(any_text(), U"aab");
  for (const auto& [text, fits] : std::vector<std::pair<std::u32string, bool>>{{U"", true},
                                                                               {U"aab", false},
                                                                               {U"aaab", false},
                                                                               {U"aaxb", true},
                                                                               {U"xaabx", false},
                                                                               {U"ab", true},
                                                                               {U"aaaa", true}})
    EXPECT_EQ(accepts(without, text), fits);
  const std::vector<std::u32string> words = {U"ab", U"abc"};
  const CharAutomaton except = *except_words(any_text(), words);
  EXPECT_TRUE(accepts(except, U"a"));
  EXPECT_FALSE(accepts(except, U"ab"));
  EXPECT_FALSE(accepts(except, U"abc"));
  EXPECT_TRUE(accepts(except, U"abcd"));
}

}  // namespace
}  // namespace baleen
