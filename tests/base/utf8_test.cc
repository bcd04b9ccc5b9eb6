#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace baleen {
namespace {

using std::string_view_literals::operator""sv;

std::string replaced(std::string_view bytes) {
  std::string text;
  if (append_as_utf8(bytes, text) < bytes.size()) text += kReplacementCharacter;
  return text;
}

TEST(Utf8, ValidTextPassesUnchanged) {
  constexpr std::string_view kText =
      "ascii \0 \x7F \u00E9 \u20AC \uFFFD \U0001F600 \U0010FFFF \uD7FF \uE000 end of the line"sv;
  const std::string text(kText);
  EXPECT_EQ(find_invalid_utf8(text), std::nullopt);
  EXPECT_EQ(replaced(text), text);
}

TEST(Utf8, NamesTheFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8("twelve bytes\xFF and \xFE"), 12u);
  EXPECT_EQ(find_invalid_utf8("\x80"), 0u);
  EXPECT_EQ(find_invalid_utf8("a\xE2\x82"), 1u) << "a character cut short counts from its first byte";
  EXPECT_EQ(find_invalid_utf8("\xED\xA0\x80"), 0u) << "surrogate";
  EXPECT_EQ(find_invalid_utf8("\xC0\x80"), 0u) << "overlong";
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u) << "past U+10FFFF";
}

// The example of the Unicode standard, table 3-8, and its neighbours.
TEST(Utf8, NoCharacter) {
  for (const char* text : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC3(", "\xE0\x9F\xBF", "\xED\xA0\x80",
                           "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(next_utf8(text).kind, Utf8Step::Kind::kInvalid) << text;
  }
}

TEST(Utf8, UnfinishedEnd) {
  EXPECT_EQ(unfinished_utf8(""), 0u);
  EXPECT_EQ(unfinished_utf8("a狐"), 0u);
  EXPECT_EQ(unfinished_utf8("a\xC3"), 1u);
  EXPECT_EQ(unfinished_utf8("a\xE7\x8B"), 2u);
  EXPECT_EQ(unfinished_utf8("\xF0\x9F\x98"), 3u);
  EXPECT_EQ(unfinished_utf8("\xF0\x9F\x98\x80"), 0u);
  EXPECT_EQ(unfinished_utf8("\x80\x80\x80\x80"), 0u);
  EXPECT_EQ(unfinished_utf8("\xE0\x9F"), 0u);  // can become nothing
}

TEST(Utf8, ReplacesMaximalSubparts) {
  EXPECT_EQ(replaced("a\xF1\x80\x80\xE1\x80\xC2"
                     "b\x80"
                     "c\x80\xBF"
                     "d"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(replaced("\xE0\x80\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replaced("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replaced("\xF4\x91\x92\x93"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replaced("\xF0\x9F\x98"), "\uFFFD") << "cut short at the end: one for the whole beginning";
  EXPECT_EQ(replaced("\xF0\x9F\x98!"), "\uFFFD!");
}

TEST(Utf8, LeavesACharacterThatMayStillBeFinished) {
  std::string text;
  EXPECT_EQ(append_as_utf8("ab\xE2\x82", text), 2u);
  EXPECT_EQ(text, "ab");
  EXPECT_EQ(append_as_utf8("\xE2\x82\xAC\xC3", text), 3u);
  EXPECT_EQ(text, "ab\u20AC");
}

}  // namespace
}  // namespace baleen
