/// What the two kernels on tiles share (ops/sparse_attention/cuda/item_parts.cuh), and the order of
/// arithmetic to which both keep.
///
/// A tile has 32 entries. Its weights depend on nothing but the tile: they are relative to its own maximum,
/// rounded up to a whole power of two. A score is four sums of 128 dims, each one chain of instructions,
/// added up in order. A dim's sum is one chain of instructions, 16 entries each, in list order, and what is
/// between them (bringing sums and weights to a common maximum) are powers of two. So weights may be computed
/// by other blocks than use them, and dims be shared among blocks, and the bits are the same.
#pragma once

#include "cuda/ptx/ldmatrix.h"
#include "cuda/ptx/mma_bf16.h"
#include "ops/sparse_attention/cuda/entry_list.cuh"
#include "ops/sparse_attention/cuda/item_parts.cuh"

namespace baleen::sm80::mma_tiles {

inline constexpr int kTileEntries = 32;
inline constexpr int kTileSteps = kTileEntries / kDepth;
inline constexpr int kHeadTiles = kGroupHeads / 16;  ///< an instruction takes 16 heads

/// A slot has [kTileSteps][kHeadTiles][lane]. Offsets of 64 bits all along: with others, kernels have more
/// instructions.
struct WaitingTiles : WaitingWeights<kTileSteps * kHeadTiles * kWarpLanes> {
  [[nodiscard]] __device__ uint4* operand(int slot, int step, int head_tile) const {
    return weights +
           ((static_cast<std::int64_t>(slot) * kTileSteps + step) * kHeadTiles + head_tile) * kWarpLanes;
  }
  [[nodiscard]] __device__ float2* heads(int slot) const {
    return softmax + static_cast<std::int64_t>(slot) * kGroupHeads;
  }
};

struct WorkPlan : ItemParts {
  WaitingTiles waiting;
  const EntryList* lists;  ///< [query]; null: a block has one item, and finds its list itself
};

__device__ inline int num_tiles_of(const EntryList& list) {
  return (list.size + kTileEntries - 1) / kTileEntries;
}

/// The values of 16 entries and kCount x 8 dims as an instruction takes them.
template <int kCount>
using ValueOperands = std::uint32_t[kCount][2];

/// Adds to the lane's sums of 16 heads and kCount x 8 dims the product of `weights` (16 heads, 16 entries)
/// and `values`.
template <int kCount>
__device__ void add_values(const std::uint32_t (&weights)[4], const ValueOperands<kCount>& values,
                           float (&sums)[4 * kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    ptx::mma_16x8x16(reinterpret_cast<float(&)[4]>(sums[4 * i]), weights[0], weights[1], weights[2],
                     weights[3], values[i][0], values[i][1]);
  }
}

/// Of rows `pitch` bytes apart.
template <int kCount>
__device__ void load_values(const std::byte* rows, int pitch, ValueOperands<kCount>& values) {
  static_assert(kCount % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const std::byte* row = rows + (lane / 8 % 2 * 8 + lane % 8) * pitch + lane / 16 * 16;
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    std::uint32_t words[4];
    ptx::ldmatrix_x4_transposed(words, row + i * 16);
    values[i][0] = words[0];
    values[i][1] = words[1];
    values[i + 1][0] = words[2];
    values[i + 1][1] = words[3];
  }
}

/// The second kernel: weights that wait (of items that fit their slots) times values, to the output.
void gather(const AttentionLaunch& launch, const WorkPlan& plan, CudaContext& context);

}  // namespace baleen::sm80::mma_tiles
