// Numbers as text: what is read, what is refused, and how the refusal words the range.
#include "base/number.h"

#include <gtest/gtest.h>

#include <string>

#include "base/quoted_text.h"

namespace baleen {
namespace {

TEST(ReadWhole, TakesWhatIsInRangeAndNothingElse) {
  const WholeRange range{1, 65'536};
  EXPECT_EQ(read_whole("1", range).value(), 1);
  EXPECT_EQ(read_whole("65536", range).value(), 65'536);
  for (const char* wrong :
       {"0", "65537", "-1", "", " 1", "1 ", "1.0", "1e3", "0x10", "nan", "inf", "1,000", "+1",
        "9223372036854775808", "18446744073709551617", "99999999999999999999999999"}) {
    EXPECT_FALSE(read_whole(wrong, range)) << wrong;
  }
  EXPECT_EQ(read_whole("abc", range).error(), "expected a whole number from 1 to 65,536; found \"abc\"");
  EXPECT_EQ(read_whole("9223372036854775807", {}).value(), INT64_MAX);
}

TEST(ReadUnsigned, HoldsAll64BitsAndNeverWraps) {
  EXPECT_EQ(read_unsigned("18446744073709551615").value(), UINT64_MAX);
  for (const char* wrong : {"18446744073709551616", "-1", "-0", "1.5", ""})
    EXPECT_FALSE(read_unsigned(wrong)) << wrong;
}

TEST(ReadReal, RefusesWhatIsNotFinite) {
  const RealRange any{.min = -1e308, .max = 1e308};
  EXPECT_EQ(read_real("1e-3", any).value(), 0.001);
  EXPECT_EQ(read_real("-2", any).value(), -2);
  for (const char* wrong : {"nan", "-nan", "NaN", "inf", "-inf", "infinity", "1e400", "1e", "", "1 ", "0,5"})
    EXPECT_FALSE(read_real(wrong, any)) << wrong;
}

TEST(ReadReal, WordsItsRange) {
  EXPECT_EQ(read_real("2", {.min = 0, .max = 1}).error(), "expected a number from 0 to 1; found \"2\"");
  EXPECT_EQ(read_real("0", {.min = 0, .max = 1000, .above_min = true}).error(),
            "expected a number above 0, at most 1,000; found \"0\"");
  EXPECT_EQ(read_real("-1", {.min = 0}).error(), "expected a number, at least 0; found \"-1\"");
}

TEST(Checked, ProductsAndSumsThatDoNotFitAreNothing) {
  EXPECT_EQ(checked_multiply(INT64_MAX / 2, 2), INT64_MAX - 1);
  EXPECT_EQ(checked_multiply(INT64_MAX / 2 + 1, 2), std::nullopt);
}

TEST(Quoted, IsBoundedAndHarmlessToATerminal) {
  EXPECT_EQ(quoted_text("a\x1b[31m\nb"), "\"a\\x1b[31m\\nb\"");
  EXPECT_EQ(quoted_text("\xff"), "\"\\xff\"");
  EXPECT_EQ(quoted_text(std::string(5'000'000, 'A'), 4), "\"AAAA...\" (5,000,000 bytes)");
  EXPECT_EQ(quoted_text("é", 1), "\"...\" (2 bytes)") << "a code point is not cut in two";
  EXPECT_EQ(shortened_text(std::string(300, 'B')).size(), 203u);
}

}  // namespace
}  // namespace baleen
