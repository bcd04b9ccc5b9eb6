/// How a weight matrix is stored.
#pragma once

#include <cstdint>
#include <string_view>

namespace baleen {

enum class WeightFormat : std::uint8_t {
  kF32,     ///< float32
  kBF16,    ///< bfloat16
  kFp8,     ///< e4m3, one scale per 128 x 128 block
  kFp8x32,  ///< e4m3, one e8m0 scale per 32 x 32 block (DeepSeek-V4.1)
  kFp4,  ///< e2m1, two a byte along the input axis (low nibble first), one e8m0 scale per row and 32 inputs
  /// The same codes, one e4m3 scale per row and 16 inputs, and one float32 scale of the whole matrix.
  kNvfp4,
  /// Integers of +-63, one e8m0 scale per row and 32 inputs (numeric/int8_group.h): in no file, copies that
  /// variants named `int8` make of FP8 weights (ops/matmul/int8_copies.h).
  kInt8,
  kQ8  ///< int8, one scale per row and 32 inputs: GGUF's Q8_0, whose F16 scales are held in float32
};

/// How a matrix in a format lies: bits of a weight, and the weights that share a scale.
struct FormatLayout {
  int bits = 0;
  int scale_rows = 0, scale_cols = 0;  ///< 0: no scales
  /// Size in memory: float32 for kFp8 and kQ8, whose scales may be more than powers of two.
  int scale_bytes = 0;
  int matrix_scale_bytes = 0;  ///< size of a scale that the whole matrix shares; 0: none

  [[nodiscard]] constexpr std::int64_t row_bytes(std::int64_t cols) const { return cols * bits / 8; }
  /// Scales along `rows` and along `cols`.
  [[nodiscard]] constexpr std::int64_t scales_down(std::int64_t rows) const {
    return ceiling(rows, scale_rows);
  }
  [[nodiscard]] constexpr std::int64_t scales_across(std::int64_t cols) const {
    return ceiling(cols, scale_cols);
  }

 private:
  static constexpr std::int64_t ceiling(std::int64_t count, std::int64_t unit) {
    return unit == 0 ? 0 : (count + unit - 1) / unit;
  }
};

[[nodiscard]] constexpr FormatLayout format_layout(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return {.bits = 32};
    case WeightFormat::kBF16:
      return {.bits = 16};
    case WeightFormat::kFp8:
      return {.bits = 8, .scale_rows = 128, .scale_cols = 128, .scale_bytes = 4};
    case WeightFormat::kFp8x32:
      return {.bits = 8, .scale_rows = 32, .scale_cols = 32, .scale_bytes = 1};
    case WeightFormat::kFp4:
      return {.bits = 4, .scale_rows = 1, .scale_cols = 32, .scale_bytes = 1};
    case WeightFormat::kNvfp4:
      return {.bits = 4, .scale_rows = 1, .scale_cols = 16, .scale_bytes = 1, .matrix_scale_bytes = 4};
    case WeightFormat::kInt8:
      return {.bits = 8, .scale_rows = 1, .scale_cols = 32, .scale_bytes = 1};
    case WeightFormat::kQ8:
      return {.bits = 8, .scale_rows = 1, .scale_cols = 32, .scale_bytes = 4};
  }
  return {};
}

/// Whether weights are e4m3 codes with scales of square blocks.
[[nodiscard]] constexpr bool is_fp8(WeightFormat format) {
  return format == WeightFormat::kFp8 || format == WeightFormat::kFp8x32;
}

/// "f32", "bf16", "fp8" of either block, "fp4", "nvfp4", "int8", "q8"
[[nodiscard]] constexpr std::string_view weight_format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBF16:
      return "bf16";
    case WeightFormat::kFp8:
    case WeightFormat::kFp8x32:
      return "fp8";
    case WeightFormat::kFp4:
      return "fp4";
    case WeightFormat::kNvfp4:
      return "nvfp4";
    case WeightFormat::kInt8:
      return "int8";
    case WeightFormat::kQ8:
      return "q8";
  }
  return "?";
}

}  // namespace baleen
