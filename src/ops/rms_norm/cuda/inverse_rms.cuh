/// The factor of a root-mean-square norm, from the sum of squares.   (source: forward pass 2.5 and 5.1)
#pragma once

#include "cuda/bf16_vector.cuh"

namespace baleen::BALEEN_ARCH {

/// rsqrt(mean(x^2) + eps) of `count` values.
__device__ inline float inverse_rms(float sum_of_squares, int count, float eps) {
  return rsqrtf(sum_of_squares / static_cast<float>(count) + eps);
}

/// The same with a rounding to BF16 after every step, of squares that were rounded too.
__device__ inline float inverse_rms_step_by_step(float sum_of_rounded_squares, int count, float eps) {
  const float mean = rounded_to_bf16(sum_of_rounded_squares / static_cast<float>(count));
  return rounded_to_bf16(1.0F / sqrtf(rounded_to_bf16(mean + eps)));
}

/// What eight values add to the sum of rounded squares.
__device__ inline float sum_of_rounded_squares(const float (&values)[8]) {
  float squares[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) squares[i] = values[i] * values[i];
  const uint4 rounded = pack_bf16(squares);
  unpack_bf16(rounded, squares);
  float sum = 0.0F;
#pragma unroll
  for (const float square : squares) sum += square;
  return sum;
}

}  // namespace baleen::BALEEN_ARCH
