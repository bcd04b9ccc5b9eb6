// Patterns against std::regex, bounded numbers against comparison, characters against UTF-8.
#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <string>
#include <vector>

#include "grammar/number_range.h"
#include "grammar/pattern.h"

namespace baleen {
namespace {

TEST(Pattern, AgreesWithStdRegex) {
  const std::vector<std::string> patterns = {
      "a",          "^a",
      "a$",         "^a|b$",
      "^(a|b)*c$",  "^a{2,3}b?$",
      "[^ab]",      "^[a-c1]+$",
      "\\d+x",      "^\\w\\s\\w$",
      "^(?:ab){2}", "a.c",
      "^a*?b+?$",   "^(a|ab)(c|bcd)$",
      "^$",         "^(|a)b$",
      "[\\]\\-a]",  "^\\x61\\u0062$",
      "^(a+)+$",    "^[^\\d\\s]{3}$",
      "a{0}b",      "^(a$|b$)",
      "\\W",
  };
  std::mt19937 random(1);
  const std::string alphabet = "aabbcd1 -]x";
  for (const std::string& pattern : patterns) {
    const Result<CharAutomaton> automaton = compile_pattern(pattern);
    ASSERT_TRUE(automaton.ok()) << pattern << ": " << automaton.error();
    const std::regex oracle(pattern);
    for (int i = 0; i < 400; ++i) {
      std::string text;
      for (std::size_t size = random() % 7; text.size() < size;) text += alphabet[random() % alphabet.size()];
      EXPECT_EQ(accepts(automaton.value(), to_characters(text)), std::regex_search(text, oracle))
          << pattern << " on " << text;
    }
  }
}

TEST(Pattern, WhatIsNotRegularIsRefused) {
  for (const char* pattern :
       {"(", ")", "[", "a**b(", "*", "\\1", "(?=a)", "(?<!a)", "a^b", "(a$)b", "\\p{Nonsense}", "a{3,2}",
        "a{99999}", "\\", "\\u12", "[b-a]", "(^a)*", "(^a|^b)c"}) {
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
