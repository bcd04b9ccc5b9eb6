/// The two consumer warpgroups of attention on tiles.
///
/// They take turns at scores: each computes those of every second block and its weights. Both then add
/// weights times values, each for its half of the dims. All of it in list order, so that a block's stage is
/// free as early as can be: while one computes a block's weights, the other still adds the block before.
///
/// A thread holds two heads (row and row + 8 of the instruction's 64) and, of each tile of 64 dims, 16 values
/// of both.
#pragma once

#include "cuda/ptx/cluster.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_bf16.h"
#include "cuda/warp_reduce.cuh"
#include "ops/sparse_attention/sm90/block_merge.cuh"
#include "ops/sparse_attention/sm90/block_weights.cuh"
#include "ops/sparse_attention/sm90/finish_output.cuh"
#include "ops/sparse_attention/sm90/tile_smem.cuh"

namespace baleen::sm90 {

/// kInPairs: of a pair of thread blocks (tile_smem.cuh).
template <bool kInPairs>
class TileConsumer {
 public:
  __device__ TileConsumer(const AttentionLaunch& launch, const WorkPlan& plan, TileSmem& smem)
      : launch_(launch),
        plan_(plan),
        smem_(smem),
        consumer_(uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads)),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads),
        lane_(thread_ % kWarpLanes),
        row_(thread_ / kWarpLanes * 16 + lane_ / 4) {}

  __device__ void run() {
    int num_done = 0;
    for (int task = static_cast<int>(blockIdx.x); task < plan_.num_tasks();
         task += static_cast<int>(gridDim.x), ++num_done) {
      ptx::mbarrier_wait(&smem_.q_full, num_done % 2);
      const TaskInfo& info = smem_.tasks[num_done % 2];
      const BlockRange blocks{uniform(info.blocks.begin), uniform(info.blocks.end)};
      const int list_size = uniform(info.list_size), first_slot = uniform(info.first_slot);
      const int num_blocks = blocks.end - blocks.begin;
      const int first_own = (consumer_ ^ num_begun_) % 2;
      float sums[kConsumerSums] = {};
      SoftmaxState state;
      if (first_own >= num_blocks) release(&smem_.q_empty);
      for (int i = 0; i < num_blocks; ++i) {
        if (i % 2 == first_own) {
          const int block = blocks.begin + i;
          weigh(num_begun_ + i, list_size - block * kBlockEntries, first_slot < 0 ? -1 : first_slot + block);
          if (i + 2 >= num_blocks) release(&smem_.q_empty);
        }
        if (first_slot < 0) gather(num_begun_ + i, sums, state);
      }
      num_begun_ += num_blocks;
      if constexpr (kInPairs) {
        for (int i = uniform(info.pair_end) - blocks.end; i > 0; --i) pass(num_begun_++);
      }
      if (first_slot < 0 && !info.nothing) finish(info, sums, state);
    }
  }

 private:
  static constexpr int kConsumerSums = kConsumerTiles * kTileSums;

  /// Once for each warp.
  __device__ void release(std::uint64_t* barrier) const {
    __syncwarp();
    if (lane_ == 0) ptx::mbarrier_arrive(barrier);
  }

  __device__ void release_keys(int stage, int consumer) const {
    std::uint64_t* barrier = &smem_.keys_empty[stage][consumer];
    release(barrier);
    if constexpr (kInPairs) {
      if (lane_ == 0) ptx::mbarrier_arrive_cluster_read(barrier, ptx::cluster_rank() ^ 1);
    }
  }

  /// Block `number`, which the pair's other list alone has.
  __device__ void pass(int number) const {
    const int stage = number % kStages, parity = number / kStages % 2;
    ptx::mbarrier_wait(&smem_.keys_full[stage], parity);
    if (number % 2 == consumer_) ptx::mbarrier_arrive(&smem_.weights_full[stage]);
    ptx::mbarrier_wait(&smem_.weights_full[stage], parity);
    release_keys(stage, consumer_);
  }

  /// Scores of block `number`, of which the first `num_valid` entries exist, to weights: for both consumers,
  /// or for slot `slot` where that is not negative.
  __device__ void weigh(int number, int num_valid, int slot) {
    const int stage = number % kStages, parity = number / kStages % 2;
    ptx::mbarrier_wait(&smem_.keys_full[stage], parity);
    const std::uint64_t q = ptx::wgmma_descriptor(smem_.q, ptx::SmemSwizzle::k128B, kRowGroupBytes);
    const std::uint64_t keys =
        ptx::wgmma_descriptor(smem_.keys[stage], ptx::SmemSwizzle::k128B, kRowGroupBytes);
    float scores[kTileSums];
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kWidth / kDepth; ++step) {
      constexpr int kTileSteps = kTileDims / kDepth;
      const int bytes = step / kTileSteps * kTileBytes + step % kTileSteps * kDepth * 2;
      ptx::wgmma_bf16<kBlockEntries>(scores, q + bytes / 16, keys + bytes / 16, step != 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
#pragma unroll
    for (float& score : scores) ptx::wgmma_hold(score);

    if (slot >= 0) {  // no other query wants the keys
      for (int consumer = 0; consumer < kConsumers; ++consumer) release_keys(stage, consumer);
    }
    float2 softmax[2];
    weigh_scores(scores, num_valid, launch_.scale_log2, softmax);
    if (slot < 0) {
      store_weights(scores, softmax, &smem_.weights[stage][0][thread_], smem_.softmax[stage]);
      ptx::mbarrier_arrive(&smem_.weights_full[stage]);
    } else {
      store_weights(scores, softmax, plan_.waiting.block(slot, thread_), plan_.waiting.heads(slot));
    }
  }

  __device__ void store_weights(const float (&values)[kTileSums], const float2 (&softmax)[2], uint4* weights,
                                float2* heads) const {
#pragma unroll
    for (int step = 0; step < kBlockSteps; ++step) {
      weights[step * kWarpgroupThreads] = pack_weights(values + 8 * step);
    }
    if (lane_ % 4 != 0) return;
    heads[row_] = softmax[0];
    heads[row_ + 8] = softmax[1];
  }

  /// Adds block `number`'s weights times values to this consumer's dims.
  __device__ void gather(int number, float (&sums)[kConsumerSums], SoftmaxState& state) {
    const int stage = number % kStages, parity = number / kStages % 2;
    ptx::mbarrier_wait(&smem_.keys_full[stage], parity);
    ptx::mbarrier_wait(&smem_.weights_full[stage], parity);
    BlockWeights weights;
#pragma unroll
    for (int step = 0; step < kBlockSteps; ++step) {
      const uint4 words = smem_.weights[stage][step][thread_];
      weights[step][0] = words.x;
      weights[step][1] = words.y;
      weights[step][2] = words.z;
      weights[step][3] = words.w;
    }
    state.merge({smem_.softmax[stage][row_], smem_.softmax[stage][row_ + 8]}, weights, sums);
    const std::uint64_t values = ptx::wgmma_transposed_descriptor(
        smem_.keys[stage][consumer_ * kConsumerTiles], ptx::SmemSwizzle::k128B, kRowGroupBytes, kTileBytes);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBlockSteps; ++step) {
      constexpr int kStepBytes = kDepth / 8 * kRowGroupBytes;
      ptx::wgmma_bf16<kConsumerTiles * kTileDims, true>(sums, weights[step], values + step * kStepBytes / 16,
                                                        true);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
#pragma unroll
    for (float& sum : sums) ptx::wgmma_hold(sum);
    release_keys(stage, consumer_);
  }

  __device__ void finish(const TaskInfo& info, const float (&sums)[kConsumerSums],
                         const SoftmaxState& state) const {
    float inverse[2];
    inverse_denominators(sinks_of(launch_, info.group, row_), state, info.list_size == 0, inverse);
#pragma unroll
    for (int tile = 0; tile < kConsumerTiles; ++tile) {
      store_tile(launch_, info.query, info.group, consumer_ * kConsumerTiles + tile, thread_,
                 sums + tile * kTileSums, inverse);
    }
  }

  const AttentionLaunch& launch_;
  const WorkPlan& plan_;
  TileSmem& smem_;
  int consumer_, thread_, lane_;
  int row_;            ///< head of the group, of the thread's first
  int num_begun_ = 0;  ///< blocks, over all tasks
};

}  // namespace baleen::sm90
