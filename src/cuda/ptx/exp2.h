/// Powers of two by one instruction of the special-function unit.  (PTX: ex2.approx.ftz)
#pragma once

namespace baleen::ptx {

/// 2^x to within two units in the last place; 0 for x below -126, 1 for x = 0.
__device__ inline float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace baleen::ptx
