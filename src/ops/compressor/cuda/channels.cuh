/// A thread's part of a row: four neighbouring channels in float32.
#pragma once

#include "cuda/warp_reduce.cuh"

namespace baleen::BALEEN_ARCH {

inline constexpr int kPiece = 4;  ///< channels of a thread

/// Four neighbouring channels.
struct Channels {
  float value[kPiece];

  __device__ static Channels filled(float with) { return {{with, with, with, with}}; }
  __device__ static Channels load(const float* from) { return of(*reinterpret_cast<const float4*>(from)); }
  /// Past the first-level cache, where an earlier kernel of the chain had other things at the address.
  __device__ static Channels load_from_l2(const float* from) {
    return of(__ldcg(reinterpret_cast<const float4*>(from)));
  }
  __device__ void store(float* to) const {
    *reinterpret_cast<float4*>(to) = {value[0], value[1], value[2], value[3]};
  }
  __device__ Channels& operator+=(const Channels& other) {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) value[i] += other.value[i];
    return *this;
  }
  __device__ void raise_to(const Channels& other) {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) value[i] = fmaxf(value[i], other.value[i]);
  }
  __device__ Channels of_lane_xor(int mask) const {
    Channels other;
#pragma unroll
    for (int i = 0; i < kPiece; ++i) other.value[i] = __shfl_xor_sync(kAllLanes, value[i], mask);
    return other;
  }

 private:
  __device__ static Channels of(float4 v) { return {{v.x, v.y, v.z, v.w}}; }
};

}  // namespace baleen::BALEEN_ARCH
