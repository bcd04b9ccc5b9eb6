// Attention over rows that are BF16 already, for prompts: tensor cores and L2 are the limit, not the
// conversion.
//
//     producer (a warpgroup)   rows of the list -> keys [64 entries][512 dims] in one of two stages
//     consumers (two)          scores = Q keys^T; weights = 2^(scores - maximum); sums += weights keys
//
// One thread block an SM runs through its tasks, a query and 64 heads each.
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/setmaxnreg.h"
#include "ops/sparse_attention/sm90/dequantised_consumer.cuh"
#include "ops/sparse_attention/sm90/dequantised_producer.cuh"

namespace baleen::sm90 {
namespace {

// Of the 168 registers a thread that 384 threads start with.
constexpr int kProducerRegisters = 56;
constexpr int kConsumerRegisters = 224;

__global__ void __launch_bounds__(kTileThreads, 1)
    attend_dequantised_kernel(const __grid_constant__ AttentionLaunch launch,
                              const __grid_constant__ DequantisedRun run, int groups) {
  extern __shared__ std::byte dynamic_shared[];
  DequantisedSmem& smem = *reinterpret_cast<DequantisedSmem*>(dynamic_shared + bytes_to_tile(dynamic_shared));
  constexpr unsigned kConsumerWarps = kWarpgroupThreads / kWarpLanes;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&smem.q_full, kConsumers * kWarpgroupThreads);
    ptx::mbarrier_init(&smem.q_empty, kConsumers * kConsumerWarps);
    for (int stage = 0; stage < kStages; ++stage) {
      for (int half = 0; half < kConsumers; ++half) {
        ptx::mbarrier_init(&smem.keys_full[stage][half], kWarpgroupThreads);
        ptx::mbarrier_init(&smem.keys_empty[stage][half], kConsumerWarps);
      }
      ptx::mbarrier_init(&smem.weights_full[stage], kWarpgroupThreads);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::wait_for_previous_kernel();
  ptx::launch_next_kernel();
  if (threadIdx.x >= kConsumers * kWarpgroupThreads) {
    ptx::registers_down_to<kProducerRegisters>();
    DequantisedProducer(launch, run, groups, smem).run();
  } else {
    ptx::registers_up_to<kConsumerRegisters>();
    DequantisedConsumer(launch, run, groups, smem).run();
  }
}

}  // namespace

void attend_dequantised(const AttentionLaunch& launch, const DequantisedRun& run, CudaContext& context) {
  const int groups = (launch.num_heads + kGroupHeads - 1) / kGroupHeads;
  launch_kernel("attend_dequantised", attend_dequantised_kernel,
                {.grid = dim3(static_cast<unsigned>(std::min(launch.num_rows * groups, context.num_sms))),
                 .threads = kTileThreads,
                 .shared_bytes = sizeof(DequantisedSmem) + kRowGroupBytes},
                context.stream, launch, run, groups);
}

}  // namespace baleen::sm90
