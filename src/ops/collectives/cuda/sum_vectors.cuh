/// Float32 sums over ranks, four values at a time.
#pragma once

#include <cstdint>

#include "cuda/bf16_vector.cuh"

namespace baleen::BALEEN_ARCH {

__device__ inline void add_vector(float4& sum, const uint4& bits, bool first) {
  const float4 x{__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                 __uint_as_float(bits.w)};
  sum = first ? x : float4{sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w};
}

/// Vector `v` of y, as the contract rounds it.
__device__ inline void store_sum(std::byte* y, bool y_is_bf16, bool rounds, std::int64_t v,
                                 const float4& sum) {
  const uint2 rounded{pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w)};
  if (y_is_bf16) {
    reinterpret_cast<uint2*>(y)[v] = rounded;
  } else if (rounds) {
    reinterpret_cast<float4*>(y)[v] = {bf16_low(rounded.x), bf16_high(rounded.x), bf16_low(rounded.y),
                                       bf16_high(rounded.y)};
  } else {
    reinterpret_cast<float4*>(y)[v] = sum;
  }
}

}  // namespace baleen::BALEEN_ARCH
