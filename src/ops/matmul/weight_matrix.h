/// A weight matrix as the checkpoint stores it: packed, never expanded beyond a register tile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numeric/weight_format.h"

namespace baleen {

/// What is added to the integers of kInt8, so that bytes are unsigned.
inline constexpr int kInt8Offset = 64;

/// W [rows = outputs N, cols = inputs K], row-major; y = x W^T. K is a multiple of 128. Not owned; data of
/// any alignment. Scales multiply.
///
/// Of 128 inputs in kInt8 the bytes lie as kernels take them (`int8_place`).
struct WeightMatrix {
  WeightFormat format = WeightFormat::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::byte* data = nullptr;
  const float* block_scales = nullptr;         ///< kFp8: [ceil(N / 128), ceil(K / 128)]
  const std::uint8_t* group_scales = nullptr;  ///< kFp4, kInt8: [N, K / 32]

  [[nodiscard]] std::int64_t row_bytes() const {
    switch (format) {
      case WeightFormat::kF32:
        return 4 * cols;
      case WeightFormat::kBF16:
        return 2 * cols;
      case WeightFormat::kFp8:
      case WeightFormat::kInt8:
        return cols;
      case WeightFormat::kFp4:
        return cols / 2;
    }
    return 0;
  }
  /// Weights and scales as checkpoints store them: a scale is a byte (e8m0), whatever it is held in here.
  [[nodiscard]] double stored_bytes() const {
    double scales = 0;
    if (format == WeightFormat::kFp8) scales = double((rows + 127) / 128) * double((cols + 127) / 128);
    if (format == WeightFormat::kFp4 || format == WeightFormat::kInt8)
      scales = double(rows) * double(cols / 32);
    return double(rows) * double(row_bytes()) + scales;
  }
  /// Rows [begin, end) as a matrix. For kFp8 `begin` is a multiple of 128.
  [[nodiscard]] WeightMatrix slice_rows(std::int64_t begin, std::int64_t end) const {
    WeightMatrix part = *this;
    part.rows = end - begin;
    part.data = data + begin * row_bytes();
    if (block_scales != nullptr) part.block_scales = block_scales + begin / 128 * ((cols + 127) / 128);
    if (group_scales != nullptr) part.group_scales = group_scales + begin * (cols / 32);
    return part;
  }
};

/// Which byte of a row in kInt8 has input k: of 128 inputs those with even numbers come first, 16 of each
/// group of 32.
[[nodiscard]] constexpr std::int64_t int8_place(std::int64_t k) {
  const std::int64_t in_block = k % 128, in_group = k % 32;
  return k - in_block + in_group % 2 * 64 + in_block / 32 * 16 + in_group / 2;
}

}  // namespace baleen
