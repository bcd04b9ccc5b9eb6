#include "log/escape.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TEST(Escape, TextStaysAsItIs) {
  for (const char* text : {"", "plain", "{\"a\\n\": 1}", "Füchse, 狐, 🦊", "<｜User｜>"})
    EXPECT_EQ(escaped_line(text), text);
}

TEST(Escape, NothingBeginsALineOrCommandsATerminal) {
  EXPECT_EQ(escaped_line("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(escaped_line("\x1B[2J\x1B]0;title\x07"), "\\x1B[2J\\x1B]0;title\\x07");
  EXPECT_EQ(escaped_line(std::string_view("\0\x7F", 2)), "\\x00\\x7F");
  EXPECT_EQ(escaped_line("\xC2\x9B"
                         "2J"),
            "\\xC2\\x9B2J")
      << "the C1 form of ESC [";
  EXPECT_EQ(escaped_line("\xE2\x80\xA8 \xE2\x80\xAE \xE2\x81\xA6"),
            "\\xE2\\x80\\xA8 \\xE2\\x80\\xAE \\xE2\\x81\\xA6");
}

TEST(Escape, TextOfSeveralLinesKeepsThem) {
  EXPECT_EQ(escaped_text("a\n\tb\xE2\x80\x8F"), "a\n\tb\xE2\x80\x8F");
  EXPECT_EQ(escaped_text("\x1B[2J\r\x07\xC2\x9B\xFF"), "\\x1B[2J\\x0D\\x07\\xC2\\x9B\\xFF");
}

TEST(Escape, BytesThatAreNoTextAreShownAsBytes) {
  EXPECT_EQ(escaped_line("\xFF"
                         "a\xC3"),
            "\\xFFa\\xC3");
  EXPECT_EQ(escaped_line("\xED\xA0\x80"), "\\xED\\xA0\\x80") << "half of a surrogate pair";
}

}  // namespace
}  // namespace baleen
