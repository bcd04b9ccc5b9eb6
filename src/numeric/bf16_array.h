/// Arrays of bfloat16 in bytes of any alignment.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "numeric/bf16.h"

namespace baleen {

/// Rounds `values` into 2 * values.size() bytes at `to`.
inline void store_bf16(std::byte* to, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Bf16Bits bits = float_to_bf16(values[i]);
    std::memcpy(to + i * sizeof(bits), &bits, sizeof(bits));
  }
}

/// Converts values.size() of them from `from`.
inline void load_bf16(const std::byte* from, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Bf16Bits bits;
    std::memcpy(&bits, from + i * sizeof(bits), sizeof(bits));
    values[i] = bf16_to_float(bits);
  }
}

}  // namespace baleen
