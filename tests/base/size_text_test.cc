#include "base/size_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace baleen {
namespace {

TEST(SizeText, TheUnitThatLeavesAWholePart) {
  EXPECT_EQ(size_text(0), "0.0 kB");
  EXPECT_EQ(size_text(999'999), "1000.0 kB");
  EXPECT_EQ(size_text(1'000'000), "1.0 MB");
  EXPECT_EQ(size_text(20'800'000), "20.8 MB");
  EXPECT_EQ(size_text(1'000'000'000), "1.00 GB");
  EXPECT_EQ(size_text(148'700'000'000), "148.70 GB");
  EXPECT_EQ(size_text(std::numeric_limits<std::int64_t>::max()), "9223372036.85 GB");
}

}  // namespace
}  // namespace baleen
