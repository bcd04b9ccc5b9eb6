/// One piece of memory in which a test places an operation's arrays, with gaps between them and behind their
/// rows.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tensor/accesses.h"

namespace baleen::test {

class GuardedMemory {
 public:
  /// Floats in [-1, 1) everywhere, of `seed`.
  explicit GuardedMemory(std::uint32_t seed) : bytes_(std::size_t{1} << 20) {
    const std::vector<std::byte> values = random_bytes(seed);
    std::ranges::copy(values, bytes_.begin());
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  template <class T>
  [[nodiscard]] T* place(std::int64_t count) {
    constexpr std::size_t kGap = 64;
    const std::size_t begin = used_;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 2 * kGap - 1) / kGap * kGap;
    BALEEN_CHECK_LE(used_, bytes_.size());
    return reinterpret_cast<T*>(bytes_.data() + begin);
  }
  template <class T>
  [[nodiscard]] std::span<T> span(std::int64_t count) {
    return {place<T>(count), static_cast<std::size_t>(count)};
  }
  /// Holding `values`.
  template <class T>
  [[nodiscard]] std::span<T> span_of(const std::vector<T>& values) {
    const std::span<T> placed = span<T>(std::ssize(values));
    std::ranges::copy(values, placed.begin());
    return placed;
  }
  [[nodiscard]] Activations<2> rows(std::int64_t num_rows, std::int64_t width) {
    const std::int64_t stride = width + 4;
    return {place<float>(num_rows * stride), {num_rows, width}, {stride, 1}};
  }
  [[nodiscard]] Activations<2> dense_rows(std::int64_t num_rows, std::int64_t width) {
    return {place<float>(num_rows * width), {num_rows, width}};
  }
  [[nodiscard]] Activations<3> heads(std::int64_t num_rows, std::int64_t num_heads, std::int64_t width) {
    const std::int64_t stride = num_heads * width + 4;
    return {place<float>(num_rows * stride), {num_rows, num_heads, width}, {stride, width, 1}};
  }
  [[nodiscard]] Activations<3> dense_heads(std::int64_t num_rows, std::int64_t num_heads,
                                           std::int64_t width) {
    return {place<float>(num_rows * num_heads * width), {num_rows, num_heads, width}};
  }
  [[nodiscard]] View<std::int32_t, 2> ids(std::int64_t num_rows, std::int64_t width,
                                          const std::vector<std::int32_t>& values = {}) {
    const View<std::int32_t, 2> view(place<std::int32_t>(num_rows * (width + 4)), {num_rows, width},
                                     {width + 4, 1});
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      view(at / width, at % width) = values[i];
    }
    return view;
  }
  [[nodiscard]] Fp8Rows fp8_rows(std::int64_t num_rows, std::int64_t width) {
    const std::int64_t stride = (num_rows + 7) / 4 * 4;
    return {place<std::uint8_t>(num_rows * width), place<float>(width / 128 * stride), stride};
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  /// Other floats wherever no range of `kept` has a byte.
  void scramble_but(std::span<const MemoryRange> kept, std::uint32_t seed) {
    const std::vector<std::byte> others = random_bytes(seed);
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (std::ranges::none_of(kept, [&](const MemoryRange& range) { return range.has(&bytes_[i]); }))
        bytes_[i] = others[i];
    }
  }
  void restore(std::span<const std::byte> bytes) { std::ranges::copy(bytes, bytes_.begin()); }

 private:
  [[nodiscard]] std::vector<std::byte> random_bytes(std::uint32_t seed) const {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::vector<std::byte> bytes(bytes_.size());
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
      const float value = uniform(random);
      std::memcpy(bytes.data() + i, &value, sizeof(value));
    }
    return bytes;
  }

  std::vector<std::byte> bytes_;
  std::size_t used_ = 64;
};

}  // namespace baleen::test
