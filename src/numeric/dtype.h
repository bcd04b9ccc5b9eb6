/// The element types of checkpoints and buffers, under their safetensors names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace baleen {

/// Types of the second line are stored in foreign checkpoints alone, and no kernel computes with them.
enum class DType : std::uint8_t {
  kF32,
  kBF16,
  kF8E4M3,
  kF8E8M0,
  kI8,
  kU8,
  kI32,
  kI64,
  kF16,
  kF64,
  kF8E5M2,
  kI16,
  kU16,
  kU32,
  kU64,
  kBool
};

/// Bytes of one stored element. Packed FP4 is stored as I8, two values a byte.
[[nodiscard]] constexpr std::int64_t dtype_bytes(DType type) {
  switch (type) {
    case DType::kI64:
    case DType::kU64:
    case DType::kF64:
      return 8;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kI16:
    case DType::kU16:
      return 2;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E8M0:
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

/// "F32", "BF16", "F8_E4M3", ...
[[nodiscard]] std::string_view dtype_name(DType type);
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);

/// Which rounding the forward pass applies (design: "Precision is explicit").
enum class Precision : std::uint8_t {
  kExact,    ///< float32 throughout, no rounding
  kBf16,     ///< activations rounded to BF16, no activation quantisation
  kReleased  ///< as the released code: BF16 activations, FP8 in front of FP8/FP4 linears, FP8/FP4 cache rows
};

[[nodiscard]] std::string_view precision_name(Precision precision);
[[nodiscard]] std::optional<Precision> precision_from_name(std::string_view name);

}  // namespace baleen
