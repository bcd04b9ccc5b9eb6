/// From the sums of a query's softmax to what is stored.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/rotation.cuh"

namespace baleen::BALEEN_ARCH {

/// `maximum` and the exponents of `denominator` count in powers of two, `sink` in powers of e. An infinite
/// sink gives 0 or has no effect.
__device__ inline float inverse_denominator(float denominator, float maximum, float sink) {
  constexpr float kLog2E = 1.44269504F;
  return 1.0F / (denominator + exp2f(fmaf(sink, kLog2E, -maximum)));
}

/// A pair of BF16 values, rotated by minus the angle in float32 and rounded again: what `rope` does with
/// `inverse`.
__device__ inline std::uint32_t rotated_back(std::uint32_t pair, float cosine, float sine) {
  float a = bf16_low(pair), b = bf16_high(pair);
  rotate_pair(a, b, cosine, -sine);
  return pack_bf16(a, b);
}

}  // namespace baleen::BALEEN_ARCH
