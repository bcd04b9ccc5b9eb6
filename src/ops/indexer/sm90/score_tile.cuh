/// A tile of keys times all heads of a group of queries, and the sum over heads.
///
/// Keys are the rows (A, registers), kHeads columns a query (B, shared memory). A lane of warp w holds the
/// products of keys 16 w + l / 4 and that + 8 with heads 8 g + 2 (l % 4) + {0, 1}.
#pragma once

#include <cstdint>

#include "cuda/ptx/saturate.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_e4m3.h"
#include "ops/indexer/sm90/key_tile.cuh"
#include "ops/indexer/sm90/query_tile.cuh"

namespace baleen::sm90::index_kernels {

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

/// What a lane has after sum_quad: whole sums of one query, for kWholeSums of its two keys.
template <int kQueries>
struct QuadPlace {
  static_assert(kQueries == 1 || kQueries == 2 || kQueries == 4);
  static constexpr int kWholeSums = kQueries == 4 ? 2 : 1;
  int query, first_key;
  bool own;  ///< false: another lane has the same sum

  __device__ static QuadPlace of_lane() {
    const int odd = static_cast<int>(threadIdx.x) % 2, upper = static_cast<int>(threadIdx.x) / 2 % 2;
    if constexpr (kQueries == 4) return {2 * odd + upper, 0, true};
    if constexpr (kQueries == 2) return {odd, upper, true};
    return {0, odd, upper == 0};
  }
};

/// Over the quad as (0 + 1) + (2 + 3). Instead of all sums everywhere, each exchange halves those that a lane
/// is left with.
template <int kQueries>
__device__ inline void sum_quad(const LaneSums<kQueries>& sums,
                                float (&whole)[QuadPlace<kQueries>::kWholeSums]) {
  constexpr int kHalf = kQueries, kQuarter = kQueries / 2;  // of the sums of two keys a query
  const bool odd = threadIdx.x % 2 != 0, upper = threadIdx.x / 2 % 2 != 0;
  const auto sum = [&](int at) { return sums[at / kRowsPerLane][at % kRowsPerLane]; };
  float half[kHalf];
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const float given = odd ? sum(i) : sum(kHalf + i);
    half[i] = (odd ? sum(kHalf + i) : sum(i)) + __shfl_xor_sync(kAllLanes, given, 1);
  }
  if constexpr (kQuarter == 0) {
    whole[0] = half[0] + __shfl_xor_sync(kAllLanes, half[0], 2);
  } else {
#pragma unroll
    for (int i = 0; i < kQuarter; ++i) {
      const float given = upper ? half[i] : half[kQuarter + i];
      whole[i] = (upper ? half[kQuarter + i] : half[i]) + __shfl_xor_sync(kAllLanes, given, 2);
    }
  }
}

}  // namespace baleen::sm90::index_kernels
