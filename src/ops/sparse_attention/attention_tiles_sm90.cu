// Attention over rows of 448 + 64 values on the tensor cores.
//
//     producer (a warpgroup)   rows of the list -> BF16 keys [64 entries][512 dims] in one of two stages
//     consumers (two)          scores = Q keys^T; weights = 2^(scores - maximum); sums += weights keys
//
// One thread block an SM runs through its tasks; the producer is up to two blocks of entries ahead, across tasks too.
#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/setmaxnreg.h"
#include "cuda/tensor_map.h"
#include "ops/operation/operation.h"
#include "ops/sparse_attention/tile_consumer.cuh"
#include "ops/sparse_attention/tile_producer.cuh"

namespace baleen::sm90 {
namespace {

// Of the 168 registers a thread that 384 threads start with.
constexpr int kProducerRegisters = 88;
constexpr int kConsumerRegisters = 208;

__global__ void __launch_bounds__(kTileThreads, 1)
    attention_tiles_kernel(const __grid_constant__ AttentionLaunch launch,
                           const __grid_constant__ CUtensorMap q_map, const __grid_constant__ WorkPlan plan) {
  extern __shared__ std::byte dynamic_shared[];
  constexpr std::uintptr_t kAlign = 1024;  // of swizzled tiles
  TileSmem& smem = *reinterpret_cast<TileSmem*>(
      (reinterpret_cast<std::uintptr_t>(dynamic_shared) + kAlign - 1) / kAlign * kAlign);
  constexpr unsigned kConsumerWarps = kWarpgroupThreads / kWarpLanes;
  if (threadIdx.x == 0) {
    ptx::tma_prefetch_map(q_map);
    ptx::mbarrier_init(&smem.q_full, 2);
    ptx::mbarrier_init(&smem.q_empty, kConsumers * kConsumerWarps);
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(&smem.keys_full[stage], kWarpgroupThreads);
      ptx::mbarrier_init(&smem.weights_full[stage], kWarpgroupThreads);
      for (auto& barrier : smem.keys_empty[stage]) ptx::mbarrier_init(&barrier, kConsumerWarps);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::wait_for_previous_kernel();
  ptx::launch_next_kernel();
  if (threadIdx.x >= kConsumers * kWarpgroupThreads) {
    ptx::registers_down_to<kProducerRegisters>();
    KeyProducer(launch, q_map, plan, smem).run();
  } else {
    ptx::registers_up_to<kConsumerRegisters>();
    TileConsumer(launch, plan, smem).run();
  }
}

/// Takes an item's results in list order; a warpgroup has one tile of dims.
__global__ void __launch_bounds__(kWarpgroupThreads)
    merge_partials_kernel(const __grid_constant__ AttentionLaunch launch,
                          const __grid_constant__ WorkPlan plan) {
  ptx::wait_for_previous_kernel();
  ptx::launch_next_kernel();
  const int dim_tile = static_cast<int>(blockIdx.x), item = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  const int row = thread / kWarpLanes * 16 + thread % kWarpLanes / 4;
  const int count = plan.partials.counts[item];
  if (count == 0) return;
  float sums[kTileSums] = {};
  SoftmaxState states[2];
#pragma unroll 2
  for (int slot = item * plan.slots; slot < item * plan.slots + count; ++slot) {
    const float4* from = plan.partials.tile(slot, dim_tile, thread);
    float4 block[kTileSums / 4];
#pragma unroll
    for (int i = 0; i < kTileSums / 4; ++i) block[i] = __ldcg(from + i * kWarpgroupThreads);
    MergeFactors factors[2];
#pragma unroll
    for (int head = 0; head < 2; ++head) {
      const float2 softmax = __ldcg(plan.partials.softmax + slot * kGroupHeads + row + 8 * head);
      factors[head] = states[head].merge(softmax.x, softmax.y);
    }
#pragma unroll
    for (int i = 0; i < kTileSums / 4; ++i) {
      sums[4 * i] = SoftmaxState::merged(sums[4 * i], block[i].x, factors[0]);
      sums[4 * i + 1] = SoftmaxState::merged(sums[4 * i + 1], block[i].y, factors[0]);
      sums[4 * i + 2] = SoftmaxState::merged(sums[4 * i + 2], block[i].z, factors[1]);
      sums[4 * i + 3] = SoftmaxState::merged(sums[4 * i + 3], block[i].w, factors[1]);
    }
  }
  float inverse[2];
  const int query = item / plan.groups, group = item % plan.groups;
  inverse_denominators(launch, group, row, states, false, inverse);
  store_tile(launch, query, group, dim_tile, thread, sums, inverse);
}

constexpr std::int64_t kSlotBytes = std::int64_t{4} * kGroupHeads * kWidth;
/// Below this many parts an item, merging costs what the cut saves.
constexpr int kMinParts = 8;
constexpr int kMaxSlots = 264;

}  // namespace

bool fits_tiles(const AttentionLaunch& launch) {
  constexpr std::int64_t kAlign = 16;
  const auto aligned = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % kAlign == 0;
  };
  const auto rows_aligned = [&](std::int64_t elements) { return elements * 2 % kAlign == 0; };
  return launch.nope == kNope && launch.rope == kRope && aligned(launch.window.base) &&
         aligned(launch.compressed.base) && launch.window.page_stride_bytes % kAlign == 0 &&
         launch.compressed.page_stride_bytes % kAlign == 0 && aligned(launch.q) && aligned(launch.out) &&
         rows_aligned(launch.q_row_stride) && rows_aligned(launch.q_head_stride) &&
         rows_aligned(launch.out_row_stride) && rows_aligned(launch.out_head_stride);
}

std::int64_t attention_tiles_scratch_bytes() {
  return Arena::bytes_for<std::byte>(kMaxSlots * kSlotBytes) +
         Arena::bytes_for<float2>(std::int64_t{kMaxSlots} * kGroupHeads) +
         Arena::bytes_for<std::int32_t>(kMaxSlots);
}

void attention_tiles(const AttentionLaunch& launch, CudaContext& context) {
  WorkPlan plan{};
  plan.groups = (launch.num_heads + kGroupHeads - 1) / kGroupHeads;
  plan.items = launch.num_rows * plan.groups;
  plan.parts = plan.items * kMinParts <= context.num_sms ? context.num_sms / plan.items : 1;
  const ScratchScope scope(context.scratch);
  if (plan.parts > 1) {
    plan.slots = kMaxSlots / plan.items;
    BALEEN_CHECK(plan.slots >= 2);
    plan.partials = {reinterpret_cast<float4*>(context.scratch.allocate<std::byte>(kMaxSlots * kSlotBytes)),
                     context.scratch.allocate<float2>(std::int64_t{kMaxSlots} * kGroupHeads),
                     context.scratch.allocate<std::int32_t>(kMaxSlots)};
  }
  const CUtensorMap q_map =
      make_tensor_map(launch.q, launch.num_rows, launch.q_row_stride * 2, launch.num_heads, kWidth * 2,
                      launch.q_head_stride * 2, kGroupHeads, kTileDims * 2, TileSwizzle::k128B);
  constexpr std::int64_t kSharedBytes = sizeof(TileSmem) + 1024;
  launch_kernel("attention_tiles", attention_tiles_kernel,
                {.grid = dim3(static_cast<unsigned>(std::min(plan.num_tasks(), context.num_sms))),
                 .threads = kTileThreads,
                 .shared_bytes = kSharedBytes},
                context.stream, launch, q_map, plan);
  if (plan.parts > 1) {
    launch_kernel("merge_partials", merge_partials_kernel,
                  {.grid = dim3(kDimTiles, static_cast<unsigned>(plan.items)), .threads = kWarpgroupThreads},
                  context.stream, launch, plan);
  }
}

}  // namespace baleen::sm90
