// UTF-8 at its edges.
#include "chat/utf8.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TEST(Utf8, LengthOfAValidCharacter) {
  EXPECT_EQ(utf8_length("a狐"), 1u);
  EXPECT_EQ(utf8_length("\u0080"), 2u);
  EXPECT_EQ(utf8_length("\u07FF"), 2u);
  EXPECT_EQ(utf8_length("\u0800"), 3u);
  EXPECT_EQ(utf8_length("\uD7FF"), 3u);
  EXPECT_EQ(utf8_length("\uFFFF"), 3u);
  EXPECT_EQ(utf8_length("\U00010000"), 4u);
  EXPECT_EQ(utf8_length("\U0010FFFF"), 4u);
}

TEST(Utf8, NoCharacter) {
  for (const char* text :
       {"", "\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xE7\x8B", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(utf8_length(text), 0u) << text;
  }
}

TEST(Utf8, ValidPrefix) {
  EXPECT_EQ(utf8_valid_prefix("a狐😀"), 8u);
  EXPECT_EQ(utf8_valid_prefix("a狐\xFF"), 4u);
  EXPECT_EQ(utf8_valid_prefix("a\xE7\x8B"), 1u);
}

TEST(Utf8, UnfinishedEnd) {
  EXPECT_EQ(utf8_unfinished(""), 0u);
  EXPECT_EQ(utf8_unfinished("a狐"), 0u);
  EXPECT_EQ(utf8_unfinished("a\xC3"), 1u);
  EXPECT_EQ(utf8_unfinished("a\xE7\x8B"), 2u);
  EXPECT_EQ(utf8_unfinished("\xF0\x9F\x98"), 3u);
  EXPECT_EQ(utf8_unfinished("\xF0\x9F\x98\x80"), 0u);
  EXPECT_EQ(utf8_unfinished("\x80\x80\x80\x80"), 0u);
}

}  // namespace
}  // namespace baleen
