/// Arithmetic that cuts its result to [0, 1].  (PTX: mul.sat)
#pragma once

namespace baleen::ptx {

/// NaN becomes 0.
__device__ inline float multiply_saturated(float a, float b) {
  float product;
  asm("mul.rn.sat.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
  return product;
}

}  // namespace baleen::ptx
