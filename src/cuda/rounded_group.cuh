/// Values as FP8 activations hold them, back in BF16, on the device.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/scale_group.cuh"

namespace baleen {

/// What eight values of a group of kGroup are as e4m3 codes with the group's scale, which is exact in BF16.
/// The group lies in neighbouring lanes, as `quantise_fp8_group` wants it; all lanes of the warp take part.
template <int kGroup>
__device__ uint4 rounded_fp8_group(const float (&values)[8]) {
  const Fp8Piece<8> piece = quantise_fp8_group<8, kGroup>(values);
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto codes = static_cast<__nv_fp8x2_storage_t>(piece.codes[i / 2] >> (i % 2 * 16));
    const float2 pair = __half22float2(__nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3));
    words[i] = bf16_bits(pair.x * piece.scale) | std::uint32_t{bf16_bits(pair.y * piece.scale)} << 16;
  }
  return {words[0], words[1], words[2], words[3]};
}

}  // namespace baleen
