/// The best of the lists that the splits of a row's keys have left (score_kernel.cuh).
#pragma once

#include <cstdint>

#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/indexer/cuda/candidates.cuh"
#include "ops/indexer/cuda/split_lists.cuh"

namespace baleen::sm90::index_kernels {

/// Blocks that share a row's lists when they are many.
inline constexpr int kMergeCluster = 8;
/// Candidates that a block holds.
inline constexpr int kMergeCapacity = 24 * 1024;

/// What a block of a cluster may leave to the first one: a little more than the best top_k is found faster.
__host__ __device__ constexpr int most_of_block(int top_k) { return top_k + top_k / 4; }

/// By the first block of a cluster: what the others have kept joins its own, a few warps for each of them.
__device__ inline void gather_cluster(MergeSpace& space) {
  constexpr int kThreadsEach = kMergeThreads / kMergeCluster;
  const int thread = static_cast<int>(threadIdx.x), rank = thread / kThreadsEach;
  const MergeSpace& other = *ptx::in_block(&space, static_cast<std::uint32_t>(rank));
  int before = 0, count = 0;
  for (int i = 0; i <= rank; ++i) {
    before += count;
    count = ptx::in_block(&space, static_cast<std::uint32_t>(i))->count;
  }
  if (rank > 0) {
    for (int i = thread % kThreadsEach; i < count; i += kThreadsEach)
      space.candidates[before + i] = other.candidates[i];
  }
  __syncthreads();
  if (thread == kMergeThreads - 1) space.count = before + count;
  __syncthreads();
}

/// Grid: (blocks of a row, rows); the blocks of a row are a cluster.
__global__ __launch_bounds__(kMergeThreads) void merge_kernel(const __grid_constant__ MergeArgs args,
                                                              NextAtOnce order) {
  extern __shared__ __align__(1024) std::byte shared[];
  auto& space = *reinterpret_cast<MergeSpace*>(shared);
  const std::int64_t row = blockIdx.y;
  const int rank = static_cast<int>(blockIdx.x), ranks = static_cast<int>(gridDim.x);
  if (threadIdx.x == 0) space.count = 0;
  // Even where there is nothing to merge: attention's blocks are then in place when the indices are. Begun
  // behind this kernel's wait they made attention's second kernel, as it was then, take 25 us of a decode
  // step instead of 13.
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const int visible = num_visible(args.batch.positions[row], args.ratio);
  // Selected already; the same for the whole cluster.
  if (visible <= args.top_k || args.lists.counts[row * args.num_splits] == kDone) return;
  __syncthreads();
  gather_lists(args.lists, row * args.num_splits, rank, ranks, args.num_splits, args.top_k, space);
  __syncthreads();
  if (ranks > 1) {
    const int count = space.count;
    if (count > args.top_k) {
      const Candidate bound =
          bound_of_best<kMergeThreads>(space.candidates, count, args.top_k, args.top_k, space.selection);
      const int kept = drop_below<kMergeThreads>(bound, space.candidates, count, space.selection);
      if (threadIdx.x == 0) space.count = kept;
    }
    ptx::cluster_sync();
    if (rank == 0) gather_cluster(space);
    ptx::cluster_sync();  // shared memory is there until it has been read
    if (rank != 0) return;
  }
  const int count = space.count;
  const Candidate bound =
      count > args.top_k
          ? bound_of_best<kMergeThreads>(space.candidates, count, args.top_k, args.top_k, space.selection)
          : 0;
  write_ascending<kMergeThreads>(bound, space.candidates, count, visible, space.bitmap, kBitmapWords,
                                 args.selected + row * args.selected_stride, args.top_k, space.selection);
}

}  // namespace baleen::sm90::index_kernels
