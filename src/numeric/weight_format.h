/// How a weight matrix is stored.
#pragma once

#include <cstdint>
#include <string_view>

namespace baleen {

enum class WeightFormat : std::uint8_t {
  kF32,   ///< float32
  kBF16,  ///< bfloat16
  kFp8,   ///< e4m3, one scale per 128 x 128 block
  kFp4,   ///< e2m1, two a byte along the input axis (low nibble first), one e8m0 scale per row and 32 inputs
  /// Integers of +-63, one e8m0 scale per row and 32 inputs (numeric/int8_group.h): in no file, copies that
  /// variants named `int8` make of FP8 weights (ops/matmul/int8_copies.h).
  kInt8
};

/// "f32", "bf16", "fp8", "fp4", "int8"
[[nodiscard]] constexpr std::string_view weight_format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBF16:
      return "bf16";
    case WeightFormat::kFp8:
      return "fp8";
    case WeightFormat::kFp4:
      return "fp4";
    case WeightFormat::kInt8:
      return "int8";
  }
  return "?";
}

}  // namespace baleen
