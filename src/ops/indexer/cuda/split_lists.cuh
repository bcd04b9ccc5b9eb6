/// Keys in their pages, and the lists of candidates that splits of a row's keys leave for the kernel that
/// merges them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device_batch.h"
#include "ops/indexer/cuda/candidates.cuh"
#include "ops/indexer/cuda/query_tile.cuh"

namespace baleen::BALEEN_ARCH::index_kernels {

inline constexpr int kCodeBytes = kDim / 2;  ///< bytes that a key takes

/// A layer's pool: pages of 2^log2_rows rows.
struct KeyPages {
  const std::byte* base;
  std::uint32_t page_stride_bytes;
  int log2_rows;
};

/// Compressed entries, of `ratio` positions each, that a query at `position` sees; none for a row of padding.
__device__ inline int num_visible(std::int32_t position, int ratio) { return (position + 1) / ratio; }

/// The best of each split of a row's keys, for the kernel that merges them.
struct SplitLists {
  Candidate* candidates;  ///< [rows][splits][top_k]
  std::int32_t* counts;   ///< [rows][splits]; the first is kDone where the first split has had all keys
};
inline constexpr std::int32_t kDone = -1;

inline constexpr int kMergeThreads = 512;
inline constexpr int kBitmapWords = 4096;
struct MergeArgs {
  SplitLists lists;
  DeviceBatch batch;
  std::int32_t* selected;
  std::int64_t selected_stride;
  int top_k;
  int num_splits;
  int ratio;
};

struct MergeSpace {
  SelectionSpace selection;
  int count;
  std::uint32_t bitmap[kBitmapWords];
  alignas(16) Candidate candidates[];
};

/// By the whole block: the lists first, first + step, ... below `end` of a row, a warp each. `row_list`: the
/// row's first list, of `top` candidates at most, as all are.
__device__ inline void gather_lists(const SplitLists& lists, std::int64_t row_list, int first, int step,
                                    int end, int top, MergeSpace& space) {
  constexpr int kBatch = 4;  // loads under way in a lane
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
            lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  for (int split = first + warp * step; split < end; split += kMergeThreads / kWarpLanes * step) {
    const std::int64_t list = row_list + split;
    const Candidate* from = lists.candidates + list * top;
    const int count = lists.counts[list];
    int to = 0;
    if (lane == 0) to = atomicAdd(&space.count, count);
    to = __shfl_sync(kAllLanes, to, 0);
    for (int begin = lane; begin < count; begin += kBatch * kWarpLanes) {
      Candidate own[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        own[i] = begin + i * kWarpLanes < count ? from[begin + i * kWarpLanes] : 0;
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (own[i] != 0) space.candidates[to + begin + i * kWarpLanes] = own[i];
      }
    }
  }
}

}  // namespace baleen::BALEEN_ARCH::index_kernels
