/// Random weight matrices in every packed format, owned.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "ops/matmul/weight_matrix.h"

namespace baleen::test {

/// Codes are uniform over all finite ones; scales are spread over a few binades, so that a wrong scale shows.
class RandomWeight {
 public:
  /// `offset` bytes beyond an address divisible by 64: checkpoints promise no alignment, though most have it.
  RandomWeight(WeightFormat format, std::int64_t rows, std::int64_t cols, std::uint32_t seed, int offset = 1);
  RandomWeight(const RandomWeight&) = delete;
  RandomWeight& operator=(const RandomWeight&) = delete;

  [[nodiscard]] const WeightMatrix& matrix() const { return matrix_; }

 private:
  std::vector<std::byte> data_;
  std::vector<float> block_scales_;
  std::vector<std::uint8_t> group_scales_;
  float matrix_scale_ = 0;
  WeightMatrix matrix_;
};

/// [count] normally distributed values.
[[nodiscard]] std::vector<float> random_values(std::size_t count, std::uint32_t seed, float deviation = 1.0F);

}  // namespace baleen::test
