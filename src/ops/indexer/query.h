/// A query row prepared for scoring, and the scratch around it.
///
/// Released precision works on integers. Values of FP4 are multiples of a half: doubled they are integers up
/// to 12, so a block's dot product is an exact integer (at most 32 * 144), and the four blocks' scales are
/// powers of two, whose products with it are exact in float32. Only the additions of the four blocks and of
/// the heads round, in a fixed order, so every instruction set yields the same scores to the bit.
#pragma once

#include <cstdint>

#include "numeric/block_scale.h"
#include "ops/indexer/indexer.h"
#include "ops/indexer/top_k.h"

namespace baleen {

inline constexpr int kIndexDim = 128;
inline constexpr int kIndexBlocks = kIndexDim / kIndexerGroup;
/// Four neighbouring bytes: what one lane of a byte dot product takes.
inline constexpr int kQuads = kIndexDim / 4;
inline constexpr int kQuadsPerBlock = kIndexerGroup / 4;
/// Keys are stored as 2 e2m1 + 12, so that they are unsigned, as the byte products of x86 want one operand to
/// be.
inline constexpr int kKeyOffset = 12;
/// Most keys scored at a time.
inline constexpr int kMaxGroup = 32;

/// Per thread. `released` uses codes, scales and offsets, the others `values`.
struct IndexerScratch {
  std::int32_t*
      codes;  ///< [heads][32]: bytes of a quad; of 8 dims first the even, then the odd ones (as keys unpack)
  float* scales;            ///< [heads][4], times 1/4 for the two doublings
  std::int32_t* offsets;    ///< [heads][4]: -12 times the sum of the block's codes
  float* values;            ///< [heads][128]
  float* weights;           ///< [heads]
  std::int32_t* keys;       ///< [32 quads or 128 dims][group]
  float* rows;              ///< [group][128]: keys on their way to `keys`
  ScoredIndex* candidates;  ///< [2 top_k]
  ScoredIndex* blocks;      ///< [2 num_blocks]

  IndexerScratch(std::int64_t num_heads, std::int64_t top_k, std::int64_t num_blocks, Arena& arena)
      : codes(arena.allocate<std::int32_t>(num_heads * kQuads)),
        scales(arena.allocate<float>(num_heads * kIndexBlocks)),
        offsets(arena.allocate<std::int32_t>(num_heads * kIndexBlocks)),
        values(arena.allocate<float>(num_heads * kIndexDim)),
        weights(arena.allocate<float>(num_heads)),
        keys(arena.allocate<std::int32_t>(kIndexDim * kMaxGroup)),
        rows(arena.allocate<float>(kIndexDim * kMaxGroup)),
        candidates(arena.allocate<ScoredIndex>(2 * top_k)),
        blocks(arena.allocate<ScoredIndex>(2 * num_blocks)) {}

  static std::int64_t bytes(std::int64_t num_heads, std::int64_t top_k, std::int64_t num_blocks) {
    return Arena::bytes_for<std::int32_t>(num_heads * kQuads) +
           2 * Arena::bytes_for<float>(num_heads * kIndexBlocks) +
           Arena::bytes_for<float>(num_heads * kIndexDim) + Arena::bytes_for<float>(num_heads) +
           2 * Arena::bytes_for<float>(kIndexDim * kMaxGroup) + Arena::bytes_for<ScoredIndex>(2 * top_k) +
           Arena::bytes_for<ScoredIndex>(2 * num_blocks);
  }
};

}  // namespace baleen
