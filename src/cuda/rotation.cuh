/// The rotation of a pair of channels by an angle: what `rope` does.   (source: forward pass 5.2)
#pragma once

namespace baleen {

/// (a, b) by the angle of that cosine and sine; by minus the angle with -sine. Both products are rounded
/// before they are added, as in `rotate_pairs`: no fused multiply-adds. The result is not yet rounded to
/// BF16.
__device__ inline void rotate_pair(float& a, float& b, float cosine, float sine) {
  const float rotated_a = __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine));
  const float rotated_b = __fadd_rn(__fmul_rn(a, sine), __fmul_rn(b, cosine));
  a = rotated_a;
  b = rotated_b;
}

/// The same with a fused multiply-add for each of the two, which rounds once less: other bits, which the norm
/// of heads and their rotation in one pass have.
__device__ inline void rotate_pair_fused(float& a, float& b, float cosine, float sine) {
  const float rotated_a = a * cosine - b * sine, rotated_b = a * sine + b * cosine;
  a = rotated_a;
  b = rotated_b;
}

}  // namespace baleen
