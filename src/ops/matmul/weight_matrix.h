/// A weight matrix as the checkpoint stores it: packed, never expanded beyond a register tile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numeric/block_scale.h"
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
  const float* block_scales = nullptr;  ///< kFp8: [ceil(N / 128), ceil(K / 128)]; kQ8: [N, K / 32]
  /// kFp4, kInt8: [N, K / 32] e8m0; kFp8x32: [ceil(N / 32), K / 32] e8m0; kNvfp4: [N, K / 16] e4m3
  const std::uint8_t* group_scales = nullptr;
  const float* matrix_scale = nullptr;  ///< kNvfp4: one, which multiplies outputs
  /// Inputs that share a scale where `released` rounds activations in front of codes to e4m3: 128 or 32,
  /// which the model says, not the file.
  int activation_group = kActivationGroup;

  [[nodiscard]] FormatLayout layout() const { return format_layout(format); }
  [[nodiscard]] std::int64_t row_bytes() const { return layout().row_bytes(cols); }
  [[nodiscard]] std::int64_t size_bytes() const { return rows * row_bytes(); }
  [[nodiscard]] std::int64_t num_scales() const {
    return layout().scales_down(rows) * layout().scales_across(cols);
  }
  /// As they lie in memory.
  [[nodiscard]] std::int64_t scale_bytes() const { return num_scales() * layout().scale_bytes; }
  /// Of `matrix_scale`.
  [[nodiscard]] std::int64_t matrix_scale_bytes() const { return layout().matrix_scale_bytes; }
  /// What sums of products with the scaled codes are multiplied by.
  [[nodiscard]] float output_factor() const { return matrix_scale != nullptr ? *matrix_scale : 1.0F; }
  /// Null without scales.
  [[nodiscard]] const std::byte* scales() const {
    return block_scales != nullptr ? reinterpret_cast<const std::byte*>(block_scales)
                                   : reinterpret_cast<const std::byte*>(group_scales);
  }
  void set_scales(const std::byte* scales) {
    const bool in_float32 = layout().scale_bytes == sizeof(float);
    block_scales = in_float32 ? reinterpret_cast<const float*>(scales) : nullptr;
    group_scales = in_float32 ? nullptr : reinterpret_cast<const std::uint8_t*>(scales);
  }
  void set_matrix_scale(const std::byte* scale) {
    matrix_scale = format == WeightFormat::kNvfp4 ? reinterpret_cast<const float*>(scale) : nullptr;
  }
  /// Weights and scales as checkpoints store them: a scale is a byte (e8m0, e4m3), of kQ8 two, whatever it is
  /// held in here.
  [[nodiscard]] double stored_bytes() const {
    return double(size_bytes()) + double(num_scales()) * (format == WeightFormat::kQ8 ? 2 : 1) +
           double(matrix_scale_bytes());
  }
  /// Rows [begin, end) as a matrix. `begin` is a multiple of the rows that share a scale.
  [[nodiscard]] WeightMatrix slice_rows(std::int64_t begin, std::int64_t end) const {
    WeightMatrix part = *this;
    part.rows = end - begin;
    part.data = data + begin * row_bytes();
    if (scales() != nullptr) {
      const FormatLayout& lies = layout();
      part.set_scales(scales() + begin / lies.scale_rows * lies.scales_across(cols) * lies.scale_bytes);
    }
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
