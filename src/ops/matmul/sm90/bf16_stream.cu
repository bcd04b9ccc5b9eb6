// Products of few tokens with many outputs in BF16: every weight passes once through shared memory, as fast
// as memory gives it.
//
// Blocks walk over tiles of 128 outputs. Two threads keep a ring of slices full, of weights and of x; two
// warpgroups multiply 64 outputs each.
#include <algorithm>

#include "base/check.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/matmul/sm90/bf16_stream.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kWarpgroups = 2;
constexpr int kMultipliers = kWarpgroups * kWarpgroupThreads;
constexpr int kThreads = kMultipliers + kLoaders * kWarpThreads;
constexpr int kSlackBytes = 2048;  // alignment, barriers

template <int kTokens>
using Stages = StreamStages<kWarpgroups * kMmaOutputs, kBoxesPerSlice, kTokens, kSharedBytes - kSlackBytes>;

/// d = the sums of a tile of BF16 weights; `weight_offset`: of the warpgroup's rows in a box.
template <class S>
__device__ void multiply_tile(float (&d)[S::kTokens / 2], const Bf16Products& work, const Ring& ring,
                              RingPlace& place, int weight_offset, int lane) {
  int previous = -1;  // stage still being read
  for (int slice = 0; slice < work.num_slices; ++slice, place.advance(S::kStages)) {
    ring.barriers.wait_full(place);
    ptx::wgmma_fence();
#pragma unroll
    for (int box = 0; box < kBoxesPerSlice; ++box) {
      multiply_box<S::kTokens>(d, ring.weights(place) + box * S::kWeightBoxBytes + weight_offset,
                               ring.tokens(place) + box * S::kTokenBoxBytes, slice > 0 || box > 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    if (previous >= 0) ring.barriers.release_operands(previous, lane);
    previous = place.stage;
  }
  ptx::wgmma_wait<0>();
  hold(d);
  ring.barriers.release_operands(previous, lane);
}

/// What y holds where `store_each` stores `values`: float32, past the first-level cache.
template <int kValues>
__device__ void load_each(const Bf16Products::Product& product, float (&values)[kValues], int first_output,
                          int first_token, int num_rows, int thread) {
  const auto* y = reinterpret_cast<const float*>(product.y);
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    const int output = first_output + operand_row(thread, i), token = first_token + token_column(thread, i);
    const bool exists = output < product.num_outputs && token < num_rows;
    values[i] = exists ? __ldcg(y + token * product.y_stride + output) : 0.0F;
  }
}

/// The first output of a warpgroup in a tile of `product`.
template <class S>
__device__ int first_output(const Bf16Products::Product& product, int tile, int warpgroup) {
  return (tile - product.first_tile) * S::kTileOutputs + warpgroup * kMmaOutputs;
}

/// kAdds: to what y holds, which is on its way while weights are.
template <class S, bool kAdds>
__device__ void multiply_tiles(const Bf16Products& work, const Ring& ring, int first_token) {
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  RingPlace place;
  for (int tile = static_cast<int>(blockIdx.x); tile < work.num_tiles; tile += static_cast<int>(gridDim.x)) {
    float d[S::kTokens / 2];
    [[maybe_unused]] float before[kAdds ? S::kTokens / 2 : 1];
    if constexpr (kAdds) {
      const Bf16Products::Product& product = product_of(work, tile);
      load_each(product, before, first_output<S>(product, tile, warpgroup), first_token, work.num_rows,
                thread);
    }
    multiply_tile<S>(d, work, ring, place, warpgroup * kMmaOutputs * kBoxRowBytes, thread % kWarpThreads);
    if constexpr (kAdds) {
#pragma unroll
      for (int i = 0; i < S::kTokens / 2; ++i) d[i] += before[i];
    }
    const Bf16Products::Product& product = product_of(work, tile);
    store_each(product, d, first_output<S>(product, tile, warpgroup), first_token, work.num_rows, thread);
  }
}

template <class S, bool kAdds>
__global__ void __launch_bounds__(kThreads, 1)
    bf16_stream(const __grid_constant__ Bf16Products work, NextAtOnce order) {
  extern __shared__ std::byte dynamic[];
  __shared__ Bf16Barriers barriers;
  const Ring ring{align_to_group(dynamic), barriers, S::kStages, S::kWeightBytes, S::kStageBytes};
  if (threadIdx.x == 0) {
    barriers.init(kLoaders, kWarpgroups * kWarpsPerWarpgroup, S::kStages);
    ptx::fence_mbarrier_init();
    order.launch_next();
  }
  __syncthreads();
  const int first_token = static_cast<int>(blockIdx.y) * S::kTokens;
  if (threadIdx.x < kMultipliers) {
    ptx::wait_for_previous_kernel();
    multiply_tiles<S, kAdds>(work, ring, first_token);
  } else {
    load_tiles<S>(work, ring, first_token, kMultipliers);
  }
}

template <bool kAdds>
void launch(const Bf16Work& work, CudaContext& context) {
  BALEEN_CHECK_EQ(work.num_segments, 1);
  with_token_tile(work.num_rows, [&](auto tokens) {
    using S = Stages<tokens()>;
    launch_stream<S>(bf16_stream<S, kAdds>, kThreads, S::kStages * S::kStageBytes + kGroupBytes, work,
                     context);
  });
}

}  // namespace

void bf16_stream(const Bf16Work& work, CudaContext& context) { launch<false>(work, context); }

void bf16_stream_adding(const Bf16Work& work, CudaContext& context) {
  for (const Bf16Work::Output& output : work.outputs)
    BALEEN_CHECK(output.y.element_type() == ElementType::kF32);
  launch<true>(work, context);
}

}  // namespace baleen::sm90
