/// Items of the products kernel, its shared memory, and the warps that fill it.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cuda/ptx/bulk_copy.h"
#include "cuda/ptx/device_flags.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "ops/experts/sm90/expert_fragments.cuh"
#include "ops/experts/sm90/expert_place.cuh"
#include "ops/experts/sm90/expert_plan.cuh"
#include "ops/experts/sm90/expert_products.h"

namespace baleen::sm90 {

/// A block has kGroups groups of consumers; each has a ring of kStages stages of its own, a producer warp,
/// and works on items of its own. A group is kWarpgroups warpgroups that share the tokens, each with kBlocks
/// blocks of 64 weight rows.
///
/// `Sizes` has these; TokenCounts, the widths of the instructions in ascending order; kBoxTokens and
/// kSmallBoxTokens, the rows of one copy of codes, and kMaxSmallBoxes, how many small ones stand in for large
/// ones; kScaleBoxTokens; kExchanges, that rows are `ExchangedRows` (then also put_output(), which writes 16
/// bytes of one); kPlannedTiles, the tiles that blocks plan for themselves (0: they read the plan);
/// kScaleWarps, that prepare FP4 scales (0: consumers do it themselves; expert_scale_warps.cuh);
/// kConsumerRegisters and kProducerRegisters (0: as the launch gives them).
template <class Sizes>
struct ProductShape : Sizes {
  using Sizes::kBlocks;
  using Sizes::kExchanges;
  using Sizes::kGroups;
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
  static constexpr int kBlockRows = 32;  ///< of a block of 64, from each half of the item
  static constexpr int kHalfRows = kBlockRows * kBlocks * kWarpgroups;
  static constexpr bool kWholeBlocks = kHalfRows == kFp8RowBlock;
  static_assert(kFp8RowBlock % kHalfRows == 0);

  // A stage is 128 bytes of every weight row: one slice of FP8, two of FP4.
  static constexpr int kStageRowBytes = 128;
  static constexpr int kMaxSlices = 2;
  static constexpr int kHalfBytes = kHalfRows * kStageRowBytes;
  static constexpr int kSliceTokenBytes = kMaxTokens * kFp8RowBlock;
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
  alignas(16) __nv_bfloat16 results[Shape::kMaxTokens * Shape::kPitch];
  // Where there are scale warps. Of a stage's FP4 rows and groups, the table's place in bytes; of an item's
  // rows, the largest scale (in its first stage).
  alignas(8) std::uint8_t table_offsets[Shape::kScaleStages][2 * Shape::kHalfRows][2 * kFp8RowBlock / 32];
  std::uint8_t tops[Shape::kScaleStages][2 * Shape::kHalfRows];
  // output_place() of a tile's rows, where each has a place of its own.
  alignas(16) std::uint32_t outputs[Shape::kExchanges ? Shape::kMaxTokens : 1];
  std::uint64_t full[Shape::kStages];
  std::uint64_t empty[Shape::kStages];
  int completes_block;
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
  int place;  ///< of the expert, in the matrix
  int row;
  int num_rows;  ///< of the matrix
};

template <class Shape, bool kSplit>
__device__ ItemMatrix item_matrix(const ExpertProducts& p, const ProductItem& item, int half) {
  const bool is_shared = p.is_shared(item.tile);
  const ExpertMatrices& matrices = is_shared ? p.shared : p.routed;
  const int place = is_shared ? 0 : expert_place(p.places, item.tile.expert);
  if (item.down) return {&matrices.down, place, item.row + half * Shape::kHalfRows, p.width};
  return {half == 0 ? &matrices.gate : &matrices.up, place, item.row, inner_width_of<kSplit>(p, item.tile)};
}

/// A place in a ring.
template <class Shape>
struct RingPosition {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    if (++slot == Shape::kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
};

/// Whether rows that are waited for may never come.
__device__ inline bool lost_rows(const ExchangedRows& rows) {
  return *static_cast<const volatile std::uint32_t*>(rows.failed) != 0;
}

/// One thread's copies for one group.
template <class Shape, bool kSplit>
class Producer {
 public:
  __device__ Producer(const ExpertProducts& p, ProductMemory<Shape>& memory, int group)
      : p_(p), stages_(memory.stages[group]), group_(memory.groups[group]) {}

  template <WeightFormat kFormat>
  __device__ void produce(const ProductItem& item) {
    constexpr int kSlices = kSlicesPerStage<kFormat>;
    const int inner_width = inner_width_of<kSplit>(p_, item.tile);
    const int num_slices = (item.down ? inner_width : p_.width) / kFp8RowBlock;
    const int num_stages = (num_slices + kSlices - 1) / kSlices;
    const Fp8RowMaps& tokens = item.down ? p_.inner_maps : p_.x_maps;
    const TokenBoxes boxes(tokens, item.tile.num_rows);
    const std::uint32_t bytes = 2 * Shape::kHalfBytes + kSlices * boxes.slice_bytes();
    const ItemMatrix halves[2] = {item_matrix<Shape, kSplit>(p_, item, 0),
                                  item_matrix<Shape, kSplit>(p_, item, 1)};
    if constexpr (kFormat == WeightFormat::kFp4) prefetch_group_scales(halves, num_slices);

    // Blocks of `inner`, or rows that come meanwhile.
    const bool counts_rows = Shape::kExchanges && !item.down;
    const std::int32_t* ready_flag =
        (counts_rows ? p_.exchanged.rows_ready : p_.blocks_ready) + item.tile_index;
    const int needed = counts_rows ? item.tile.num_rows : inner_width / kFp8RowBlock;
    const bool is_there = !item.down && !Shape::kExchanges;  // once the kernel before has ended
    bool ready = is_there && dispatched_;
    const auto look = [&] {
      ready = ptx::flag_read(ready_flag) >= needed;
      if constexpr (Shape::kExchanges) ready = ready || lost_rows(p_.exchanged);
      if (ready) ptx::fence_proxy_async_all();
    };
    const auto wait_for_tokens = [&] {
      if (!dispatched_) ptx::wait_for_previous_kernel();
      dispatched_ = true;
      ready = is_there;
      while (!ready) look();
    };
    RingPosition<Shape> tokens_position = position_;  // of the first stage that has its weights only
    int stage_of_tokens = 0;
    const auto load_tokens_until = [&](int end) {
      for (; stage_of_tokens < end; ++stage_of_tokens) {
        load_tokens<kSlices>(boxes, item, stage_of_tokens, tokens_position.slot);
        tokens_position.advance();
      }
    };
    for (int stage = 0; stage < num_stages; ++stage) {
      // A full ring without tokens would wait for itself.
      if (!ready && stage - stage_of_tokens == Shape::kStages) {
        wait_for_tokens();
        load_tokens_until(stage);
      }
      ptx::mbarrier_wait(&group_.empty[position_.slot], position_.parity ^ 1);
      ptx::mbarrier_arrive_expect(&group_.full[position_.slot], bytes);
      load_weights(halves, stage, position_.slot);
      position_.advance();
      if (!ready && dispatched_) look();
      if (ready) load_tokens_until(stage + 1);
    }
    if (!ready) wait_for_tokens();
    load_tokens_until(num_stages);
  }

 private:
  /// How a slice of a tile's rows is copied.
  struct TokenBoxes {
    const CUtensorMap* codes;
    const CUtensorMap* scales;
    int rows;  ///< of a box
    int count;
    int scale_count;

    __device__ TokenBoxes(const Fp8RowMaps& maps, int num_tokens) : scales(&maps.scales) {
      const bool small = num_tokens <= Shape::kMaxSmallBoxes * Shape::kSmallBoxTokens;
      codes = small ? &maps.small_codes : &maps.codes;
      rows = small ? Shape::kSmallBoxTokens : Shape::kBoxTokens;
      count = (num_tokens + rows - 1) / rows;
      scale_count = (num_tokens + Shape::kScaleBoxTokens - 1) / Shape::kScaleBoxTokens;
    }
    __device__ std::uint32_t slice_bytes() const {
      return static_cast<std::uint32_t>(count * rows * kFp8RowBlock + scale_count * Shape::kScaleBoxTokens *
                                                                          static_cast<int>(sizeof(float)));
    }
  };

  __device__ static void prefetch_group_scales(const ItemMatrix (&halves)[2], int num_slices) {
    const int row_bytes = num_slices * (kFp8RowBlock / 32);
#pragma unroll
    for (const ItemMatrix& half : halves) {
      const int rows = min(Shape::kHalfRows, half.num_rows - half.row);
      if (rows <= 0) continue;
      const auto* scales = static_cast<const std::uint8_t*>(half.matrix->scales) +
                           half.place * half.matrix->scale_distance +
                           static_cast<std::int64_t>(half.row) * row_bytes;
      ptx::bulk_prefetch_l2(scales, static_cast<std::uint32_t>(rows * row_bytes));
    }
  }

  __device__ void load_weights(const ItemMatrix (&halves)[2], int stage, int slot) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      ptx::tma_load(stages_[slot] + half * Shape::kHalfBytes, halves[half].matrix->map, &group_.full[slot],
                    stage * Shape::kStageRowBytes, halves[half].row, halves[half].place,
                    ptx::L2Hint::kNormal);
    }
  }

  template <int kSlices>
  __device__ void load_tokens(const TokenBoxes& boxes, const ProductItem& item, int stage, int slot) {
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      const int block = stage * kSlices + slice;
      std::uint8_t* to = stages_[slot] + 2 * Shape::kHalfBytes + slice * Shape::kSliceTokenBytes;
      for (int box = 0; box < boxes.count; ++box) {
        ptx::tma_load(to + box * boxes.rows * kFp8RowBlock, *boxes.codes, &group_.full[slot],
                      block * kFp8RowBlock, item.tile.first_row + box * boxes.rows);
      }
      for (int box = 0; box < boxes.scale_count; ++box) {
        ptx::tma_load(&group_.token_scales[slot][slice][box * Shape::kScaleBoxTokens], *boxes.scales,
                      &group_.full[slot],
                      static_cast<int>(sizeof(float)) * (item.tile.first_row + box * Shape::kScaleBoxTokens),
                      block);
      }
    }
  }

  const ExpertProducts& p_;
  std::uint8_t (&stages_)[Shape::kStages][Shape::kStageBytes];
  GroupMemory<Shape>& group_;
  RingPosition<Shape> position_;
  bool dispatched_ = Shape::kPlannedTiles == 0;  ///< what the previous kernel writes is there
};

}  // namespace baleen::sm90
