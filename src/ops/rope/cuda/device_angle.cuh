/// Cosine and sine of a rotation on the device: the numbers of `rope_angles` in ops/rope/rope_frequencies.h.
#pragma once

namespace baleen::BALEEN_ARCH {

struct CosineSine {
  float cosine;
  float sine;
};

/// Of fl32(position * frequency), in float64 and rounded once, as on the CPU. Written out because the
/// toolkit's function keeps a table for arguments that no position reaches, and with it a call and a stack
/// frame: |angle| < 2^31 here.
__device__ inline CosineSine rope_angle(float frequency, int position) {
  const auto angle = static_cast<double>(__fmul_rn(static_cast<float>(position), frequency));
  // angle = quarter * pi/2 + r with |r| <= pi/4; pi/2 in two parts.
  constexpr double kTwoOverPi = 0.63661977236758134308;
  constexpr double kHalfPi = 1.57079632679489661923, kHalfPiRest = 6.12323399573676603587e-17;
  const double quarters = rint(angle * kTwoOverPi);
  const double r = fma(-quarters, kHalfPiRest, fma(-quarters, kHalfPi, angle));
  // Taylor's series: what is left out is below 3e-14 of the sine, 1e-15 of the cosine.
  const double x = r * r;
  double sine = 1.0 / 6227020800.0;
  sine = fma(sine, x, -1.0 / 39916800.0);
  sine = fma(sine, x, 1.0 / 362880.0);
  sine = fma(sine, x, -1.0 / 5040.0);
  sine = fma(sine, x, 1.0 / 120.0);
  sine = fma(sine, x, -1.0 / 6.0);
  sine = fma(sine * x, r, r);
  double cosine = -1.0 / 87178291200.0;
  cosine = fma(cosine, x, 1.0 / 479001600.0);
  cosine = fma(cosine, x, -1.0 / 3628800.0);
  cosine = fma(cosine, x, 1.0 / 40320.0);
  cosine = fma(cosine, x, -1.0 / 720.0);
  cosine = fma(cosine, x, 1.0 / 24.0);
  cosine = fma(cosine, x, -0.5);
  cosine = fma(cosine, x, 1.0);
  const int quarter = __double2int_rn(quarters) & 3;
  const auto c = static_cast<float>(quarter % 2 == 0 ? cosine : sine);
  const auto s = static_cast<float>(quarter % 2 == 0 ? sine : cosine);
  return {quarter == 1 || quarter == 2 ? -c : c, quarter >= 2 ? -s : s};
}

}  // namespace baleen::BALEEN_ARCH
