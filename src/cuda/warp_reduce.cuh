/// Sums and maxima over the lanes of a warp. The order of the additions is fixed, and every lane gets the
/// same bits: in a butterfly both partners add the same two numbers.
#pragma once

#include <cstdint>

namespace baleen {

inline constexpr int kWarpLanes = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

/// Over groups of kLanes neighbouring lanes. All lanes of the warp take part, in this and in what follows.
template <int kLanes = kWarpLanes, class T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

template <int kLanes = kWarpLanes>
__device__ float warp_max(float value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

/// Of the lanes up to and including this one.
template <class T>
__device__ T warp_inclusive_sum(T value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
#pragma unroll
  for (int step = 1; step < kWarpLanes; step *= 2) {
    const T before = __shfl_up_sync(kAllLanes, value, step);
    if (lane >= step) value += before;
  }
  return value;
}

}  // namespace baleen
