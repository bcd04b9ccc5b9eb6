/// A tile of keys times all heads of a group of queries, and the sum over heads.
///
/// Keys are the rows (A, registers), kHeads columns a query (B, shared memory). A lane of warp w holds the products of keys
/// 16 w + l / 4 and that + 8 with heads 8 g + 2 (l % 4) + {0, 1}.
#pragma once

#include <cstdint>

#include "cuda/ptx/saturate.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_e4m3.h"
#include "ops/indexer/key_tile.cuh"
#include "ops/indexer/query_tile.cuh"

namespace baleen::index_kernels {

template <int kQueries>
using Products = float[kQueries * kHeads / 2];

/// Queues the products; `finish_products` waits for them.
template <int kQueries>
__device__ inline void begin_products(const std::uint32_t (&a)[kSteps][4], std::uint64_t queries,
                                      Products<kQueries>& products) {
  constexpr std::uint64_t kStepUnits = kDim / kSteps / 16;  // of a descriptor's address
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    ptx::wgmma_e4m3<kQueries * kHeads>(products, a[step], queries + step * kStepUnits, step > 0);
  }
  ptx::wgmma_commit();
}

template <int kQueries>
__device__ inline void finish_products(Products<kQueries>& products) {
  ptx::wgmma_wait<0>();
#pragma unroll
  for (float& product : products) ptx::wgmma_hold(product);
}

/// A lane's sums over its heads, of its two keys for each query.
template <int kQueries>
using LaneSums = float[kQueries][kRowsPerLane];

/// sum_h w_h relu(product_h) over the lane's heads in ascending order.
template <int kQueries>
__device__ inline void sum_lane(const Products<kQueries>& products, const float (*weights)[kHeads],
                                LaneSums<kQueries>& sums) {
  const int block = static_cast<int>(threadIdx.x) % kBlocks;
#pragma unroll
  for (int head = 0; head < kHeads / kBlocks; ++head) {
#pragma unroll
    for (int query = 0; query < kQueries; ++query) {
      const float weight = weights[query][head / 4 * 16 + block * 4 + head % 4];
#pragma unroll
      for (int i = 0; i < kRowsPerLane; ++i) {
        const float product = products[query * 32 + head / 2 * 4 + i * 2 + head % 2];
        const float positive = ptx::multiply_saturated(product, power_of_two(-kSumBits));
        sums[query][i] = fmaf(weight, positive, head == 0 ? 0.0F : sums[query][i]);
      }
    }
  }
}

/// The query whose scores a lane has after sum_quad. With one query all lanes of a quad have the same.
template <int kQueries>
__device__ inline int query_of_lane() {
  static_assert(kQueries == 1 || kQueries == 4);
  const int lane = static_cast<int>(threadIdx.x);
  return kQueries == 1 ? 0 : lane % 2 * 2 + lane / 2 % 2;
}

/// Over the quad as (0 + 1) + (2 + 3): whole sums, of the lane's two keys for its query.
template <int kQueries>
__device__ inline void sum_quad(const LaneSums<kQueries>& sums, float (&whole)[kRowsPerLane]) {
  if constexpr (kQueries == 1) {
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      const float pair = sums[0][i] + __shfl_xor_sync(kAllLanes, sums[0][i], 1);
      whole[i] = pair + __shfl_xor_sync(kAllLanes, pair, 2);
    }
  } else {
    // Instead of all sums everywhere, each exchange halves the queries that a lane is left with.
    const int lane = static_cast<int>(threadIdx.x);
    const bool odd = lane % 2 != 0, upper = lane / 2 % 2 != 0;
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      float pairs[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float given = odd ? sums[j][i] : sums[2 + j][i];
        pairs[j] = (odd ? sums[2 + j][i] : sums[j][i]) + __shfl_xor_sync(kAllLanes, given, 1);
      }
      const float given = upper ? pairs[0] : pairs[1];
      whole[i] = (upper ? pairs[1] : pairs[0]) + __shfl_xor_sync(kAllLanes, given, 2);
    }
  }
}

}  // namespace baleen::index_kernels
