#include "ops/experts/sm90/expert_copy.h"

#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/experts/sm90/expert_plan.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kLoads = 8;  // of 16 bytes that a thread has in flight: 64 KB of a block

struct CopyParams {
  PlanInput input;
  std::byte* blocks;
  std::int64_t block_bytes;
};

/// Blocks take pieces of 64 KB in turn, expert after expert.
__global__ void __launch_bounds__(kPlanThreads) copy_kernel(const CopyParams p) {
  __shared__ int chosen[kPlanThreads], experts[kPlanThreads], warp_sums[kPlanThreads / kWarpLanes];
  const int thread = static_cast<int>(threadIdx.x);
  chosen[thread] = 0;
  __syncthreads();
  // In this order: kernels behind this one read `ids`, which an earlier one writes, before they wait for it.
  ptx::wait_for_previous_kernel();
  ptx::launch_next_kernel();
  for_each_assignment(p.input, [&](int, int expert) { chosen[expert] = 1; });
  __syncthreads();
  const bool copied = chosen[thread] != 0 && p.input.is_copied(thread);
  const int index = block_exclusive_sum(copied ? 1 : 0, warp_sums);
  const int num_copied = block_sum(warp_sums);
  if (copied) experts[index] = thread;
  __syncthreads();

  const std::int64_t num_words = p.block_bytes / static_cast<std::int64_t>(sizeof(uint4));
  constexpr int kPieceWords = kLoads * kPlanThreads;
  const int num_pieces = static_cast<int>((num_words + kPieceWords - 1) / kPieceWords);
  for (int piece = static_cast<int>(blockIdx.x); piece < num_copied * num_pieces;
       piece += static_cast<int>(gridDim.x)) {
    const int expert = experts[piece / num_pieces];
    const std::int64_t first = static_cast<std::int64_t>(piece % num_pieces) * kPieceWords + thread;
    const auto* from = reinterpret_cast<const uint4*>(p.blocks + p.input.places[expert] * p.block_bytes);
    auto* to = reinterpret_cast<uint4*>(p.blocks + p.input.copied[expert] * p.block_bytes);
    uint4 words[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (first + i * kPlanThreads < num_words) words[i] = __ldcs(from + first + i * kPlanThreads);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (first + i * kPlanThreads < num_words) to[first + i * kPlanThreads] = words[i];
    }
  }
}

}  // namespace

void copy_chosen_experts(const ExpertsArgs& args, CUstream_st* stream, bool early) {
  const DispatchExtents extents{.num_tokens = args.x.extent(0),
                                .num_selected = args.ids.extent(1),
                                .num_experts = static_cast<std::int64_t>(args.routed.size())};
  BALEEN_CHECK(extents.num_experts <= kPlanThreads);
  BALEEN_CHECK_EQ(args.places.block_bytes % static_cast<std::int64_t>(sizeof(uint4)), 0);
  launch_kernel("copying chosen experts from the host", copy_kernel,
                {.grid = dim3(kCopyBlocks), .threads = kPlanThreads, .early = early}, stream,
                CopyParams{PlanInput(args, extents), args.places.blocks, args.places.block_bytes});
}

}  // namespace baleen::sm90
