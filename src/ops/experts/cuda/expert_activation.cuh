/// What is between an expert's two products.
#pragma once

#include "cuda/bf16_vector.cuh"

#include "numeric/bf16.h"

namespace baleen::BALEEN_ARCH {

/// The largest that w1 x may be, and w3 x either way; `swiglu_limit` 0: no clamp.
__device__ inline float clamp_limit(float swiglu_limit) {
  return swiglu_limit > 0.0F ? swiglu_limit : __int_as_float(0x7F800000);
}

/// Clamped SwiGLU of w1 x and w3 x, each rounded to BF16 first, times the routing weight. The fast
/// exponential and quotient are off by a few units of 2^-23, which the rounding to 2^-9 hides.
__device__ inline Bf16Bits activate(float gate, float up, float limit, float routing_weight) {
  gate = rounded_to_bf16(gate);
  up = rounded_to_bf16(up);
  gate = gate > limit ? limit : gate;  // comparisons that let NaN pass
  up = up > limit ? limit : up < -limit ? -limit : up;
  return bf16_bits(routing_weight * (__fdividef(gate, 1.0F + __expf(-gate)) * up));
}

}  // namespace baleen::BALEEN_ARCH
