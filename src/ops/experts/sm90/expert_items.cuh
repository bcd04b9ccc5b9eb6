/// Items of the products kernel and the shared memory of its blocks: what an item is, which ones a group of
/// warps works on, and where its weights lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cuda/pipeline_ring.cuh"
#include "ops/experts/cuda/expert_plan.cuh"
#include "ops/experts/sm90/expert_fragments.cuh"
#include "ops/experts/sm90/expert_products.h"

namespace baleen::sm90 {

/// A block has kGroups groups of consumers; each has a ring of kStages stages of its own, a producer warp,
/// and works on items of its own. A group is kWarpgroups warpgroups that share the tokens, each with
/// kRowTiles tiles of 64 weight rows.
///
/// `Sizes` has these; TokenCounts, the widths of the instructions in ascending order; kBoxTokens and
/// kSmallBoxTokens, the rows of one copy of codes, and kMaxSmallBoxes, how many small ones stand in for large
/// ones; kScaleBoxTokens; kExchanges, that rows are `ExchangedRows` (then also put_output(), which writes 16
/// bytes of one); kPlannedTiles, the tiles that blocks plan for themselves (0: they read the plan);
/// kScaleWarps, that prepare FP4 scales (0: consumers do it themselves; expert_weight_scales.cuh);
/// kConsumerRegisters and kProducerRegisters (0: as the launch gives them).
template <class Sizes>
struct ProductShape : Sizes {
  using Sizes::kExchanges;
  using Sizes::kGroups;
  using Sizes::kRowTiles;
  using Sizes::kScaleBoxTokens;
  using Sizes::kScaleWarps;
  using Sizes::kStages;
  using Sizes::kWarpgroups;

  // Up to here a second set of weights fits in registers, dequantised or as it comes from memory.
  static constexpr int kMaxTokensAhead = 64;
  static constexpr int kMaxTokensLoadedAhead = 96;
  template <int... kCounts>
  static constexpr int largest(std::integer_sequence<int, kCounts...>) {
    return std::max({kCounts...});
  }
  static constexpr int kMaxTokens = largest(typename Sizes::TokenCounts{});

  static constexpr int kGroupThreads = 128 * kWarpgroups;
  static constexpr int kConsumers = kGroups * kGroupThreads;
  static constexpr int kThreads = kConsumers + 128;
  static constexpr int kTileHalfRows = 32;  ///< each half of the item gives a tile of 64 so many
  static constexpr int kHalfRows = kTileHalfRows * kRowTiles * kWarpgroups;
  static constexpr bool kWholeScaleGroups = kHalfRows == kActivationGroup;
  static_assert(kActivationGroup % kHalfRows == 0);

  // A stage is 128 bytes of every weight row: one slice of FP8, two of FP4.
  static constexpr int kStageRowBytes = 128;
  static constexpr int kMaxSlices = 2;
  static constexpr int kHalfBytes = kHalfRows * kStageRowBytes;
  static constexpr int kSliceTokenBytes = kMaxTokens * kActivationGroup;
  static constexpr int kStageBytes = 2 * kHalfBytes + kMaxSlices * kSliceTokenBytes;
  static_assert(kStageBytes % 1024 == 0 && kSliceTokenBytes % 1024 == 0);
  static constexpr int kScaleSlots =
      ((kMaxTokens + kScaleBoxTokens - 1) / kScaleBoxTokens * kScaleBoxTokens + 31) / 32 * 32;
  static constexpr int kScaleStages = kScaleWarps > 0 ? kStages : 1;
  static constexpr int kPitch = kHalfRows + 8;  ///< BF16 values from token to token of staged results
};

/// Slices of 128 inputs in a stage.
template <WeightFormat kFormat>
inline constexpr int kSlicesPerStage = kFormat == WeightFormat::kFp4 ? 2 : 1;

template <class Shape>
struct GroupMemory {
  alignas(128) float token_scales[Shape::kStages][Shape::kMaxSlices][Shape::kScaleSlots];
  alignas(16) Bf16Bits results[Shape::kMaxTokens * Shape::kPitch];
  // Where there are scale warps. Of a stage's FP4 rows and groups, the table's place in bytes; of an item's
  // rows, the largest scale (in its first stage).
  alignas(8) std::uint8_t table_offsets[Shape::kScaleStages][2 * Shape::kHalfRows][2 * kActivationGroup / 32];
  std::uint8_t tops[Shape::kScaleStages][2 * Shape::kHalfRows];
  // output_place() of a tile's rows, where each has a place of its own.
  alignas(16) std::uint32_t outputs[Shape::kExchanges ? Shape::kMaxTokens : 1];
  RingBarriers<Shape::kStages> ring;
  int completes_scale_group;
};

/// A block's own plan.
template <int kTiles>
struct BlockPlan {
  TokenTile tiles[kTiles];
  int assignments[kPlanThreads];
  int warp_sums[kPlanThreads / kWarpLanes];
  std::int32_t num_tiles;
};
template <>
struct BlockPlan<0> {};

template <class Shape>
struct ProductMemory {
  alignas(1024) std::uint8_t stages[Shape::kGroups][Shape::kStages][Shape::kStageBytes];
  GroupMemory<Shape> groups[Shape::kGroups];
  ScaledMagnitudes tables[kMagnitudeTables];
  Bf16Bits* output_arrays[Shape::kExchanges ? ExchangedRows::kMaxArrays : 1];
  BlockPlan<Shape::kPlannedTiles> plan;
};

/// A piece of work: a token tile times 2 * kHalfRows weight rows.
struct ProductItem {
  bool down;  ///< y from a; else a from x
  int tile_index;
  TokenTile tile;
  int row;  ///< inner: of gate and of up; down: of half 0, half 1 follows it
};

/// `kSplit`: inner widths are split over ranks, so that those of the shared expert and of routed ones may
/// differ and outputs may be partial sums. Kernels for whole experts have nothing of it: it costs registers.
template <class Shape, bool kSplit>
struct ProductItems {
  int inner_pieces;  ///< items of a routed expert's tile
  int shared_inner_pieces;
  int down_pieces;
  const TokenTile* tiles;
  int num_shared;  ///< tiles of the shared expert, the first ones, where those count apart
  int num_inner;
  int num_items;

  __device__ ProductItems(const ExpertProducts& p, const TokenTile* all_tiles, int num_tiles)
      : inner_pieces(p.inner_width / Shape::kHalfRows),
        shared_inner_pieces(kSplit ? p.shared_inner_width / Shape::kHalfRows : inner_pieces),
        down_pieces((p.width + 2 * Shape::kHalfRows - 1) / (2 * Shape::kHalfRows)),
        tiles(all_tiles),
        num_shared(kSplit && !p.takes_copied ? p.plan_input.num_shared_tiles() : 0),
        num_inner(num_shared * shared_inner_pieces + (num_tiles - num_shared) * inner_pieces),
        num_items(num_inner + num_tiles * down_pieces) {}

  __device__ ProductItem at(int index) const {
    ProductItem item;
    item.down = index >= num_inner;
    int pieces = item.down ? down_pieces : inner_pieces, first_tile = 0;
    if (item.down) {
      index -= num_inner;
    } else if constexpr (kSplit) {
      const int num_shared_inner = num_shared * shared_inner_pieces;
      if (index < num_shared_inner) {
        pieces = shared_inner_pieces;
      } else {
        index -= num_shared_inner;
        first_tile = num_shared;
      }
    }
    item.tile_index = first_tile + index / pieces;
    item.row = index % pieces * Shape::kHalfRows * (item.down ? 2 : 1);
    const auto* from = reinterpret_cast<const int4*>(tiles + item.tile_index);
    const int4 tile =
        Shape::kPlannedTiles > 0 ? *from : __ldcg(from);  // the block's own plan is in shared memory
    item.tile = {tile.x, tile.y, tile.z, tile.w};
    return item;
  }

  /// Items of group `group` of this block: first, and from one to the next.
  __device__ static int first(int group) {
    return static_cast<int>(gridDim.x) * group + static_cast<int>(blockIdx.x);
  }
  __device__ static int step() { return static_cast<int>(gridDim.x) * Shape::kGroups; }
};

template <bool kSplit>
__device__ int inner_width_of(const ExpertProducts& p, const TokenTile& tile) {
  return kSplit && p.is_shared(tile) ? p.shared_inner_width : p.inner_width;
}
template <bool kSplit>
__device__ int inner_pitch_of(const ExpertProducts& p) {
  return kSplit ? p.inner_pitch : p.inner_width;
}

/// One half of an item's weights.
struct ItemMatrix {
  const ExpertMatrix* matrix;
  int place;  ///< where the expert lies in the matrix
  int row;
  int num_rows;  ///< rows that the matrix has
};

template <class Shape, bool kSplit>
__device__ ItemMatrix item_matrix(const ExpertProducts& p, const ProductItem& item, int half) {
  const bool is_shared = p.is_shared(item.tile);
  const ExpertMatrices& matrices = is_shared ? p.shared : p.routed;
  const int place = is_shared ? 0 : expert_place(p.places, item.tile.expert);
  if (item.down) return {&matrices.down, place, item.row + half * Shape::kHalfRows, p.width};
  return {half == 0 ? &matrices.gate : &matrices.up, place, item.row, inner_width_of<kSplit>(p, item.tile)};
}

}  // namespace baleen::sm90
