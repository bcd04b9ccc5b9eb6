/// Shared memory of attention on tiles, and who waits for whom.
///
///     q        8 tiles [64 heads][64 dims], by TMA
///     keys     2 stages of 8 tiles [64 entries][64 dims] BF16; rows of 128 bytes, swizzled as TMA does
///     weights  of the block in the stage with that number, as operand registers: written by one warpgroup, read by both
///
///     q_full        TMA, task known -> consumers         q_empty      consumers, scores done -> producer
///     keys_full[s]  producer -> consumers            keys_empty[s][w]  consumer w has used its half of the dims -> producer
///     weights_full[s]  the consumer that computed them -> both
///
/// A pair is two thread blocks of a cluster whose tasks, next to each other, see the same rows: groups of
/// heads of a query, or rows of a sequence that attend to all compressed entries. Each dequantises half of
/// every block that they share and sends it to the same place in the other's shared memory. keys_full then
/// counts the bytes that come from there as well, and keys_empty the consumers of both, so that stages go
/// round together; a shorter list's thread block goes through the last stages with nothing in them.
///
/// Weights need no barrier of their own to become free: whoever writes block n + 2's has waited for its keys,
/// which the producer wrote when both consumers were done with block n.
#pragma once

#include "numeric/block_scale.h"
#include "ops/sparse_attention/sm90/tile_work.cuh"

namespace baleen::sm90 {

inline constexpr int kConsumers = 2;  ///< warpgroups; each owns 256 dims of the sums
inline constexpr int kStages = 2;
inline constexpr int kConsumerTiles = kDimTiles / kConsumers;
inline constexpr int kTileThreads = (kConsumers + 1) * kWarpgroupThreads;

/// What the producer found out about a task.
struct TaskInfo {
  int query, group;
  int list_size;
  BlockRange blocks;
  int pair_end;    ///< of the blocks of the pair's longer list
  int first_slot;  ///< of the item's weights; negative: the task does the whole item
  bool nothing;    ///< to do: another task does the whole item
};

/// The same value, which all lanes have, known to the compiler as such: loops and descriptors then take
/// uniform registers.
__device__ inline int uniform(int value) { return __shfl_sync(kAllLanes, value, 0); }

struct TileSmem {
  std::byte q[kDimTiles][kTileBytes];
  std::byte keys[kStages][kDimTiles][kTileBytes];
  uint4 weights[kStages][kBlockSteps][kWarpgroupThreads];
  uint4 codes[kNope / kLatentBlock][kWarpgroupThreads];  ///< on their way to the producer's threads
  float2 softmax[kStages][kGroupHeads];                  ///< maximum and sum of the block's weights
  TaskInfo tasks[2];
  std::uint64_t q_full, q_empty;
  std::uint64_t keys_full[kStages], keys_empty[kStages][kConsumers];
  std::uint64_t weights_full[kStages];
};

}  // namespace baleen::sm90
