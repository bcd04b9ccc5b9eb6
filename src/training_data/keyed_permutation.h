/// A permutation of [0, size) that a key names: any place is computed alone, without a table.
#pragma once

#include <bit>
#include <cstdint>

#include "base/check.h"

namespace baleen {

/// A bijection of 64-bit numbers that mixes every bit into every other. (source: SplitMix64, Steele et al.
/// 2014)
[[nodiscard]] constexpr std::uint64_t mixed_bits(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// A Feistel network over the next even power of two, walked until it falls within [0, size): fewer than four
/// walks on average.
class KeyedPermutation {
 public:
  KeyedPermutation(std::int64_t size, std::uint64_t key)
      : size_(static_cast<std::uint64_t>(size)),
        half_bits_((static_cast<int>(std::bit_width(size_ > 1 ? size_ - 1 : 1)) + 1) / 2),
        key_(key) {
    BALEEN_CHECK(size > 0);
  }

  /// For place in [0, size).
  [[nodiscard]] std::int64_t operator()(std::int64_t place) const {
    auto at = static_cast<std::uint64_t>(place);
    do at = round_trip(at);
    while (at >= size_);
    return static_cast<std::int64_t>(at);
  }

 private:
  static constexpr int kRounds = 6;

  [[nodiscard]] std::uint64_t round_trip(std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed =
          mixed_bits(key_ ^ mixed_bits(right + (static_cast<std::uint64_t>(round) << 40)));
      const std::uint64_t next = left ^ (mixed & mask);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  std::uint64_t size_;
  int half_bits_;
  std::uint64_t key_;
};

}  // namespace baleen
