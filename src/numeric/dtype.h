/// The element types of checkpoints and buffers, under their safetensors names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace baleen {

enum class DType : std::uint8_t { kF32, kBF16, kF8E4M3, kF8E8M0, kI8, kU8, kI32, kI64 };

/// Bytes of one stored element. Packed FP4 is stored as I8, two values a byte.
[[nodiscard]] constexpr std::int64_t dtype_bytes(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kF8E4M3:
    case DType::kF8E8M0:
    case DType::kI8:
    case DType::kU8:
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
