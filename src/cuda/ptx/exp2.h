/// Powers of two in the special function unit.  (PTX: ex2)
#pragma once

namespace baleen::ptx {

/// Within 2^-22 relative; 1 for 0, 0 for -infinity; results below 2^-126 are 0.
__device__ inline float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace baleen::ptx
