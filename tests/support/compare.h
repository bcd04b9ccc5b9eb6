/// The one comparator of the test suite: non-finite positions first, then absolute, relative and cosine
/// error, with the worst coordinate and both values in the message.
#pragma once

#include <span>
#include <string>

namespace baleen::test {

struct Tolerance {
  double absolute = 0.0;  ///< largest |got - want| allowed at any element
  double relative = 0.0;  ///< or |got - want| <= relative * |want|; an element passes if either bound holds
  double norm = 0.0;      ///< if > 0: ||got - want|| / ||want|| over the whole array must not exceed it
};

/// Empty when `got` agrees with `want`; otherwise a sentence for the failure message.
/// NaN must meet NaN and infinity the same infinity. All-zero tolerance asks for equal values (-0 equals 0).
[[nodiscard]] std::string difference(std::span<const float> got, std::span<const float> want,
                                     Tolerance tolerance);

/// Equality to the bit, NaN payloads included.
[[nodiscard]] std::string bit_difference(std::span<const float> got, std::span<const float> want);

}  // namespace baleen::test

#define EXPECT_CLOSE(got, want, ...) EXPECT_EQ(::baleen::test::difference(got, want, __VA_ARGS__), "")
#define EXPECT_SAME_BITS(got, want) EXPECT_EQ(::baleen::test::bit_difference(got, want), "")
#define ASSERT_SAME_BITS(got, want) ASSERT_EQ(::baleen::test::bit_difference(got, want), "")
