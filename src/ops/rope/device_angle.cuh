/// Cosine and sine of a rotation on the device: the numbers of `rope_angles` in ops/rope/rope_frequencies.h.
#pragma once

namespace baleen {

struct CosineSine {
  float cosine;
  float sine;
};

/// Of fl32(position * frequency). In float64, rounded once, as on the CPU: float32 functions would save nothing that can be
/// measured (a table per step; 32 pairs per compressed entry, hidden behind its loads) and differ in the last bit.
__device__ inline CosineSine rope_angle(float frequency, int position) {
  const float angle = __fmul_rn(static_cast<float>(position), frequency);
  double cosine, sine;
  sincos(static_cast<double>(angle), &sine, &cosine);
  return {static_cast<float>(cosine), static_cast<float>(sine)};
}

}  // namespace baleen
