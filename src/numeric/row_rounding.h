/// Rounding of float32 arrays in place to the values of a smaller format, SIMD: what an array holds after it
/// was written in that format and read again.
#pragma once

#include <span>

namespace baleen::row_rounding {

/// round_bf16 (bf16.h) of each value.
void to_bf16(std::span<float> values);

/// simulate_fp8 and simulate_fp4 (block_scale.h) to the bit, of numbers. `block` is a multiple of 16.
void to_fp8(std::span<float> values, int block);
void to_fp4(std::span<float> values, int block);

/// The transform of hadamard.h with the sums in float32. The size is a power of two.
void hadamard(std::span<float> values);

}  // namespace baleen::row_rounding
