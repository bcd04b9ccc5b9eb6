// Bytes that are made where they are used: once for as many users as there are, and anew after the last.
#include "checkpoint/made_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace baleen {
namespace {

/// Bytes of a number, and how often they were made.
MadeBytes::Piece piece(std::int64_t size, int value, std::atomic<int>& times) {
  return {.size = size, .make = [value, &times](std::span<std::byte> to) {
            ++times;
            std::ranges::fill(to, static_cast<std::byte>(value));
          }};
}

bool is_all(std::span<const std::byte> bytes, int value) {
  return std::ranges::all_of(bytes, [value](std::byte one) { return one == static_cast<std::byte>(value); });
}

TEST(MadeBytes, MakesWhatIsUsedAndNoMore) {
  std::atomic<int> times[3]{};
  const MadeBytes made({piece(10'000, 1, times[0]), piece(100, 2, times[1]), piece(50'000, 3, times[2])});
  EXPECT_EQ(made.size_bytes(), 60'100);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.bytes(i).data()) % 64, 0u);
  {
    const AcquiredBytes small(&made, made.bytes(1));
    const AcquiredBytes part(&made, made.bytes(2).subspan(40'000, 10));
    EXPECT_TRUE(is_all(made.bytes(1), 2));
    EXPECT_TRUE(is_all(made.bytes(2), 3));  // a piece is made whole
    const AcquiredBytes again(&made, made.bytes(2));
  }
  EXPECT_EQ(times[0], 0);
  EXPECT_EQ(times[1], 1);
  EXPECT_EQ(times[2], 1);
  EXPECT_EQ(made.made_bytes(), 50'100);
  EXPECT_TRUE(is_all(made.bytes(2).first(4096), 0));  // given back
  const AcquiredBytes later(&made, made.bytes(2));
  EXPECT_EQ(times[2], 2);
  EXPECT_TRUE(is_all(made.bytes(2), 3));
}

TEST(MadeBytes, OtherAddressesAndNoneArePassedOver) {
  std::atomic<int> times = 0;
  const MadeBytes made({piece(100, 1, times)});
  const std::vector<std::byte> other(10);
  const AcquiredBytes elsewhere(&made, other), nothing(&made, {}), without(nullptr, other);
  const AcquiredBytes empty(&made, made.bytes(0).first(0));
  EXPECT_EQ(times, 0);
  const MadeBytes none({});
  EXPECT_EQ(none.size_bytes(), 0);
}

TEST(MadeBytes, ManyThreadsMakeAPieceOnce) {
  std::atomic<int> times = 0;
  const MadeBytes made({piece(100'000, 7, times)});
  made.acquire(made.bytes(0));
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const AcquiredBytes acquired(&made, made.bytes(0));
        wrong += is_all(made.bytes(0), 7) ? 0 : 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace baleen
