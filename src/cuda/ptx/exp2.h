/// Powers of two in the special function unit.  (PTX: ex2)
}

/// Powers of two by one instruction of the special-function unit.  (PTX: ex2.approx.ftz)
#pragma once

namespace baleen::ptx {

/// Within 2^-22 relative; 1 for 0, 0 for -infinity; results below 2^-126 are 0.
__device__ inline float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// 2^x to within two units in the last place; 0 for x below -126, 1 for x = 0.
__device__ inline float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace baleen::ptx
