/// How attention on tiles is cut into work, and what its kernels leave for each other.
///
/// An item is a query and a group of 64 heads; its list has tiles of as many entries as a kernel multiplies
/// at a time. With many items, an item is one block's. With few, so that a decode step of a few sequences
/// fills the chip, an item's tiles are shared among `parts` blocks that leave weights alone, and a second
/// kernel, a block for each 64 dims, multiplies them with the values.
#pragma once

#include "ops/sparse_attention/cuda/attention_tile.cuh"

namespace baleen::BALEEN_ARCH {

struct TileRange {
  int begin = 0, end = 0;
};

struct ItemParts {
  int groups;  ///< groups of heads
  int items;
  int parts;  ///< parts that an item has
  int slots;  ///< slots that an item with several parts has, each for a tile's weights

  /// Of a launch on `num_sms` multiprocessors, with `max_slots` in all. `min_parts`: where an item would have
  /// fewer, it has one.
  [[nodiscard]] static ItemParts of(const AttentionLaunch& launch, int num_sms, int min_parts,
                                    int max_slots) {
    ItemParts cut{};
    cut.groups = (launch.num_heads + kGroupHeads - 1) / kGroupHeads;
    cut.items = launch.num_rows * cut.groups;
    cut.parts = cut.items * min_parts <= num_sms ? num_sms / cut.items : 1;
    cut.slots = cut.parts > 1 ? max_slots / cut.items : 0;
    return cut;
  }

  /// Whether an item's weights go to its slots. One that has more tiles than slots is done by its first part.
  [[nodiscard]] __device__ bool shares(int num_tiles) const { return parts > 1 && num_tiles <= slots; }

  [[nodiscard]] __device__ TileRange range(int num_tiles, int part) const {
    if (!shares(num_tiles)) return part == 0 ? TileRange{0, num_tiles} : TileRange{};
    const int each = (num_tiles + parts - 1) / parts;
    const int begin = min(part * each, num_tiles);
    return {begin, min(begin + each, num_tiles)};
  }
};

/// Weights that wait for their values, in scratch memory: a tile's in each slot, of which an item has
/// `ItemParts::slots`. Where a slot's lie, its kernels say.
template <std::int64_t kSlotWords>
struct WaitingWeights {
  uint4* weights;   ///< [slot][kSlotWords]: operand registers
  float2* softmax;  ///< [slot][head]: maximum and sum of the tile's

  [[nodiscard]] static std::int64_t bytes(std::int64_t num_slots) {
    return Arena::bytes_for<uint4>(num_slots * kSlotWords) +
           Arena::bytes_for<float2>(num_slots * kGroupHeads);
  }
  [[nodiscard]] static WaitingWeights allocate(std::int64_t num_slots, Arena& scratch) {
    return {scratch.allocate<uint4>(num_slots * kSlotWords),
            scratch.allocate<float2>(num_slots * kGroupHeads)};
  }
};

}  // namespace baleen::BALEEN_ARCH
