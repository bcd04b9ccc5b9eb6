// Attention over rows of 448 + 64 values on the tensor cores.
//
//     producer (a warpgroup)   rows of the list -> BF16 keys [64 entries][512 dims] in one of two stages
//     consumers (two)          scores = Q keys^T; weights = 2^(scores - maximum); sums += weights keys
//
// One thread block an SM runs through its tasks; the producer is up to two blocks of entries ahead, across
// tasks too. Thread blocks whose tasks see the same rows work in pairs and share keys.
#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/setmaxnreg.h"
#include "cuda/tensor_map.h"
#include "ops/operation/operation.h"
#include "ops/sparse_attention/sm90/gather_tiles.h"
#include "ops/sparse_attention/sm90/tile_consumer.cuh"
#include "ops/sparse_attention/sm90/tile_producer.cuh"

namespace baleen::sm90 {
namespace {

// Of the 168 registers a thread that 384 threads start with.
constexpr int kProducerRegisters = 120;
constexpr int kConsumerRegisters = 192;

template <bool kInPairs, bool kOneQuery>
__global__ void __launch_bounds__(kTileThreads, 1)
    attention_tiles_kernel(const __grid_constant__ AttentionLaunch launch,
                           const __grid_constant__ CUtensorMap q_map, const __grid_constant__ WorkPlan plan) {
  extern __shared__ std::byte dynamic_shared[];
  TileSmem& smem = *reinterpret_cast<TileSmem*>(dynamic_shared + bytes_to_tile(dynamic_shared));
  constexpr unsigned kConsumerWarps = kWarpgroupThreads / kWarpLanes;
  if (threadIdx.x == 0) {
    ptx::tma_prefetch_map(q_map);
    ptx::mbarrier_init(&smem.q_full, 1);
    ptx::mbarrier_init(&smem.q_empty, kConsumers * kConsumerWarps);
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(&smem.keys_full[stage], kWarpgroupThreads);
      ptx::mbarrier_init(&smem.weights_full[stage], kWarpgroupThreads);
      for (auto& barrier : smem.keys_empty[stage]) {
        ptx::mbarrier_init(&barrier, (kInPairs ? 2 : 1) * kConsumerWarps);
      }
    }
    ptx::fence_mbarrier_init();
  }
  if constexpr (kInPairs) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
  if (threadIdx.x >= kConsumers * kWarpgroupThreads) {
    ptx::registers_down_to<kProducerRegisters>();
    KeyProducer<kInPairs, kOneQuery>(launch, q_map, plan, smem).run();
  } else {
    ptx::registers_up_to<kConsumerRegisters>();
    ptx::wait_for_previous_kernel();
    if (plan.parts == 1) ptx::launch_next_kernel();  // with more the producer does
    TileConsumer<kInPairs>(launch, plan, smem).run();
  }
  if constexpr (kInPairs) ptx::cluster_sync();  // the other one may still say here that it has read
}

/// With fewer parts an item, one kernel is quicker than two.
constexpr int kMinParts = 8;
/// Blocks that wait for their values. An item of eight parts then has room for a list at 2^20 tokens, ratio
/// 128.
constexpr int kMaxSlots = 2112;
constexpr std::int64_t kSlotWords = kBlockSteps * kWarpgroupThreads;

/// Whether items next to each other see the same rows: groups of heads of a query, or rows of a sequence that
/// attend to all compressed entries (two rows of most sequences, then).
bool share_keys(const AttentionLaunch& launch, const WorkPlan& plan) {
  if (plan.parts > 1 || plan.items == 1) return false;
  if (plan.groups % 2 == 0) return true;
  return plan.groups == 1 && launch.ratio != 0 && launch.ratio != 4 &&
         launch.num_rows >= 2 * launch.batch.num_sequences;
}

}  // namespace

std::int64_t attention_tiles_scratch_bytes() {
  return Arena::bytes_for<uint4>(kMaxSlots * kSlotWords) + Arena::bytes_for<float2>(kMaxSlots * kGroupHeads);
}

void attention_tiles(const AttentionLaunch& launch, CudaContext& context) {
  WorkPlan plan{};
  plan.groups = (launch.num_heads + kGroupHeads - 1) / kGroupHeads;
  plan.items = launch.num_rows * plan.groups;
  plan.parts = plan.items * kMinParts <= context.num_sms ? context.num_sms / plan.items : 1;
  const ScratchScope scope(context.scratch);
  if (plan.parts > 1) {
    plan.slots = kMaxSlots / plan.items;
    plan.waiting = {context.scratch.allocate<uint4>(kMaxSlots * kSlotWords),
                    context.scratch.allocate<float2>(kMaxSlots * kGroupHeads)};
  }
  const CUtensorMap q_map =
      make_tensor_map(launch.q, launch.num_rows, launch.q_row_stride * 2, launch.num_heads, kWidth * 2,
                      launch.q_head_stride * 2, kGroupHeads, kTileDims * 2, TileSwizzle::k128B);
  constexpr std::int64_t kSharedBytes = sizeof(TileSmem) + kRowGroupBytes;
  plan.in_pairs = share_keys(launch, plan);
  const int most_blocks = plan.in_pairs ? context.num_sms / 2 * 2 : context.num_sms;
  const auto kernel = !plan.in_pairs         ? attention_tiles_kernel<false, false>
                      : plan.groups % 2 == 0 ? attention_tiles_kernel<true, true>
                                             : attention_tiles_kernel<true, false>;
  launch_kernel("attention_tiles", kernel,
                {.grid = dim3(static_cast<unsigned>(std::min(plan.num_tasks(), most_blocks))),
                 .threads = kTileThreads,
                 .shared_bytes = kSharedBytes,
                 .cluster = plan.in_pairs ? 2 : 1},
                context.stream, launch, q_map, plan);
  if (plan.parts > 1) gather_tiles(launch, plan, context);
}

}  // namespace baleen::sm90
