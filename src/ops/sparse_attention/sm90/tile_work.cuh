/// How attention on tiles is cut into work, and what its kernels leave for each other.
///
/// An item is a query and a group of 64 heads; its list has blocks of 64 entries. With many items an item is
/// one task of one kernel. With few, so that a decode step of a few sequences fills the chip, an item's
/// blocks are shared among `parts` tasks that leave weights alone, and a second kernel, a thread block for
/// each 64 dims, multiplies them with the values.
#pragma once

#include "cuda/ptx/mbarrier.h"
#include "ops/sparse_attention/sm90/entry_list.cuh"

namespace baleen::sm90 {

inline constexpr int kGroupHeads = 64;  ///< rows of a matrix instruction
inline constexpr int kNope = kTilesNope, kRope = kTilesRope, kWidth = kTilesWidth;
inline constexpr int kDataBytes = kNope + 2 * kRope, kScaleBytes = 8;
inline constexpr int kTileDims = 64;  ///< 128 bytes of BF16: a tile's row
inline constexpr int kDimTiles = kWidth / kTileDims;
inline constexpr int kWarpgroupThreads = 128;
/// What a thread of a warpgroup holds of 64 heads x 64 dims: the layout of ptx/wgmma_bf16.h.
inline constexpr int kTileSums = kGroupHeads * kTileDims / kWarpgroupThreads;

inline constexpr int kDepth = 16;  ///< of a matrix instruction
inline constexpr int kBlockSteps = kBlockEntries / kDepth;
inline constexpr int kTileBytes = kBlockEntries * kTileDims * 2;
inline constexpr int kRowGroupBytes = 8 * kTileDims * 2;  ///< eight rows of a swizzled tile

/// From `shared` to the next place for a tile. (An offset, not a rounded pointer, so that the compiler still
/// knows where it points: accesses of unknown space are slow, and a fence between them and the tensor cores
/// waits for all reads under way.)
__device__ inline unsigned bytes_to_tile(const std::byte* shared) {
  return -ptx::shared_address(shared) % static_cast<unsigned>(kRowGroupBytes);
}

/// Weights that wait for their values, in scratch memory: `slots` blocks for each item.
struct WaitingWeights {
  uint4* weights;   ///< [items * slots][kBlockSteps][thread]: operand registers
  float2* softmax;  ///< [items * slots][head]: maximum and sum of the block's

  [[nodiscard]] __device__ uint4* block(int slot, int thread) const {
    return weights + static_cast<std::int64_t>(slot) * kBlockSteps * kWarpgroupThreads + thread;
  }
  [[nodiscard]] __device__ float2* heads(int slot) const { return softmax + slot * kGroupHeads; }
};

struct BlockRange {
  int begin = 0, end = 0;
};

struct WorkPlan {
  int groups;  ///< of heads
  int items;
  int parts;  ///< of an item
  int slots;  ///< of an item, with several parts
  WaitingWeights waiting;
  bool in_pairs;  ///< an odd number of items is rounded up

  [[nodiscard]] __host__ __device__ int num_tasks() const {
    return items * parts + (in_pairs && items % 2 != 0 ? 1 : 0);
  }
  /// Whether an item's weights go to its slots. One that has more blocks than slots is done by its first
  /// part.
  [[nodiscard]] __device__ bool shares(int num_blocks) const { return parts > 1 && num_blocks <= slots; }

  [[nodiscard]] __device__ BlockRange range(int num_blocks, int part) const {
    if (!shares(num_blocks)) return part == 0 ? BlockRange{0, num_blocks} : BlockRange{};
    const int run = (num_blocks + parts - 1) / parts;
    const int begin = min(part * run, num_blocks);
    return {begin, min(begin + run, num_blocks)};
  }
};

}  // namespace baleen::sm90
