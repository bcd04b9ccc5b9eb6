/// An entry of the indexer's keys to its row in the pool.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/scale_group.cuh"
#include "cuda/warp_reduce.cuh"
#include "numeric/block_scale.h"
#include "ops/compressor/cuda/channels.cuh"
#include "tensor/ragged_batch.h"

namespace baleen::BALEEN_ARCH {

struct DeviceIndexKeyPool {
  std::byte* base = nullptr;  ///< null: entries are latent rows
  std::int64_t page_stride_bytes = 0;
  std::int32_t rows_per_page = 0;
};

/// Hadamard transform of 128 values, four in a lane, rounded to BF16. (numeric/hadamard.h)
__device__ inline Channels transformed_key(Channels entry) {
  constexpr float kNormalisation = 0.08838834764831845F;  // 128^-1/2
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  float* y = entry.value;
  const float a = y[0] + y[1], b = y[0] - y[1], c = y[2] + y[3], d = y[2] - y[3];
  y[0] = a + c, y[1] = b + d, y[2] = a - c, y[3] = b - d;
#pragma unroll
  for (int step = 1; step < kWarpLanes; step *= 2) {
    const Channels other = entry.of_lane_xor(step);
#pragma unroll
    for (int i = 0; i < kPiece; ++i)
      y[i] = (lane & step) != 0 ? other.value[i] - y[i] : y[i] + other.value[i];
  }
#pragma unroll
  for (int i = 0; i < kPiece; ++i) y[i] = rounded_to_bf16(y[i] * kNormalisation);
  return entry;
}

/// Rounds 128 values, four in a lane, to an FP4 row. (numeric/index_key.h)
__device__ inline void store_index_key(const DeviceIndexKeyPool& pool, PageId page, int row,
                                       const Channels& entry) {
  constexpr int kDim = kPiece * kWarpLanes;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const float* y = entry.value;
  float amax = 0.0F;
#pragma unroll
  for (int i = 0; i < kPiece; ++i) amax = fmaxf(amax, fabsf(y[i]));
  constexpr int kGroupLanes = kIndexerGroup / kPiece;
  const float scale = fp4_scale(warp_max<kGroupLanes>(amax)), inverse = inverse_scale(scale);

  std::byte* base = pool.base + static_cast<std::int64_t>(page) * pool.page_stride_bytes;
  auto* codes = reinterpret_cast<std::uint16_t*>(base + row * (kDim / 2));
  codes[lane] =
      static_cast<std::uint16_t>(to_e2m1x4(y[0] * inverse, y[1] * inverse, y[2] * inverse, y[3] * inverse));
  if (lane % kGroupLanes == 0) {
    auto* scales = reinterpret_cast<std::uint8_t*>(base + pool.rows_per_page * (kDim / 2) +
                                                   row * (kDim / kIndexerGroup));
    scales[lane / kGroupLanes] = e8m0_code(scale);
  }
}

}  // namespace baleen::BALEEN_ARCH
