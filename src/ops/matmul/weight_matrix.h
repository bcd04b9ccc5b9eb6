/// A weight matrix as the checkpoint stores it: packed, never expanded beyond a register tile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numeric/weight_format.h"

namespace baleen {

/// W [rows = outputs N, cols = inputs K], row-major; y = x W^T. K is a multiple of 128. Not owned; data of
/// any alignment. Scales multiply.
struct WeightMatrix {
  WeightFormat format = WeightFormat::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::byte* data = nullptr;
  const float* block_scales = nullptr;         ///< kFp8: [ceil(N / 128), ceil(K / 128)]
  const std::uint8_t* group_scales = nullptr;  ///< kFp4: [N, K / 32]

  [[nodiscard]] std::int64_t row_bytes() const {
    switch (format) {
      case WeightFormat::kF32:
        return 4 * cols;
      case WeightFormat::kBF16:
        return 2 * cols;
      case WeightFormat::kFp8:
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
    if (format == WeightFormat::kFp4) scales = double(rows) * double(cols / 32);
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

}  // namespace baleen
