/// How attention on tiles is cut into work, and what its thread blocks leave for each other.
///
/// An item is a query and a group of 64 heads; its list has blocks of 64 entries. With many items an item is one task.
/// With few, so that a decode step of a few sequences fills the chip, an item is cut into `parts` tasks: the first takes a
/// run of blocks from the start and leaves its state, the others leave each block's result, and a second kernel merges
/// them in list order (block_merge.cuh).
#pragma once

#include "ops/sparse_attention/entry_list.cuh"

namespace baleen::sm90 {

inline constexpr int kGroupHeads = 64;  ///< rows of a matrix instruction
inline constexpr int kNope = kTilesNope, kRope = kTilesRope, kWidth = kTilesWidth;
inline constexpr int kDataBytes = kNope + 2 * kRope, kScaleBytes = 8;
inline constexpr int kTileDims = 64;  ///< 128 bytes of BF16: a tile's row
inline constexpr int kDimTiles = kWidth / kTileDims;
inline constexpr int kWarpgroupThreads = 128;
/// What a thread of a warpgroup holds of 64 heads x 64 dims: the layout of ptx/wgmma_bf16.h.
inline constexpr int kTileSums = kGroupHeads * kTileDims / kWarpgroupThreads;

/// Results that wait to be merged, in scratch memory: `slots` for each item, the first for the state of its first part.
struct Partials {
  float4* sums;     ///< [items * slots][dim tile][kTileSums / 4][thread]: a thread's sums as it holds them
  float2* softmax;  ///< [items * slots][head]: maximum, denominator
  std::int32_t* counts;  ///< [items]: results to merge; 0: the item is done

  static constexpr int kSumsPerSlot = kGroupHeads * kWidth / 4;

  [[nodiscard]] __device__ float4* tile(int slot, int dim_tile, int thread) const {
    return sums + static_cast<std::int64_t>(slot) * kSumsPerSlot +
           dim_tile * (kTileSums / 4) * kWarpgroupThreads + thread;
  }
};

struct BlockRange {
  int begin = 0, end = 0;
};

struct WorkPlan {
  int groups;  ///< of heads
  int items;
  int parts;  ///< of an item
  int slots;  ///< of an item, at least 2 if there are several parts
  Partials partials;

  [[nodiscard]] __host__ __device__ int num_tasks() const { return items * parts; }

  /// Blocks of part 0: its share, and what the slots cannot hold.
  [[nodiscard]] __device__ int first_run(int num_blocks) const {
    if (parts == 1) return num_blocks;
    return max((num_blocks + parts - 1) / parts, num_blocks - (slots - 1));
  }
  [[nodiscard]] __device__ BlockRange range(int num_blocks, int part) const {
    const int first = first_run(num_blocks);
    if (part == 0) return {0, first};
    const int run = (num_blocks - first + parts - 2) / (parts - 1);
    const int begin = min(first + (part - 1) * run, num_blocks);
    return {begin, min(begin + run, num_blocks)};
  }
};

}  // namespace baleen::sm90
