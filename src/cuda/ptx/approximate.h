/// One instruction of the special-function unit where float's division and its kin take many.  (PTX:
/// *.approx.ftz)
#pragma once

namespace baleen::ptx {

/// 1 / x to within one unit in the last place; subnormal x count as zero.
__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace baleen::ptx
