/// Shared memory of attention over dequantised rows, and who waits for whom.
///
///     q        8 tiles [64 heads][64 dims]
///     keys     2 stages of 8 tiles [64 entries][64 dims]; rows of 128 bytes, swizzled as TMA does
///     weights  of the block in the stage with that number, as operand registers: written by one consumer for the other
///
///     q_full           producer's copies -> consumers          q_empty  consumers, scores done -> producer
///     keys_full[s][h]  producer's copies of dims 256 h .. -> who computes scores
///     keys_empty[s][h] consumer h, who owns those dims, has used them as values -> producer
///     weights_full[s]  the consumer that computed them -> the other
///
/// A half of the dims is free as soon as its owner is done with it: the owner has the block's weights, so its
/// scores were done before. Weights need no barrier of their own to become free: whoever writes block n + 2's
/// has waited for both halves of its keys, which the producer loads when both consumers were done with block
/// n.
#pragma once

#include "ops/sparse_attention/sm90/dequantised_rows.h"
#include "ops/sparse_attention/sm90/tile_smem.cuh"

namespace baleen::sm90 {

struct DequantisedSmem {
  std::byte q[kDimTiles][kTileBytes];
  std::byte keys[kStages][kDimTiles][kTileBytes];
  uint4 weights[kStages][kBlockSteps][kWarpgroupThreads];
  float2 softmax[kStages][kGroupHeads];  ///< maximum and sum of the block's weights
  std::uint64_t q_full, q_empty;
  std::uint64_t keys_full[kStages][kConsumers], keys_empty[kStages][kConsumers];
  std::uint64_t weights_full[kStages];
};

}  // namespace baleen::sm90
