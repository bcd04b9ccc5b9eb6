/// The two consumer warpgroups of attention on tiles.
///
/// They take turns at scores: each computes those of every second block and its weights. Both then add weights times
/// values, each for its half of the dims, block after block in list order. While one waits for its scores or takes
/// exponentials, the tensor cores work for the other.
///
/// A thread holds two heads (row and row + 8 of the instruction's 64) and, of each tile of 64 dims, 16 values of both.
#pragma once

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/exp2.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_bf16.h"
#include "cuda/warp_reduce.cuh"
#include "ops/sparse_attention/block_merge.cuh"
#include "ops/sparse_attention/finish_output.cuh"
#include "ops/sparse_attention/tile_smem.cuh"

namespace baleen::sm90 {

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
      // Parts after the first leave each block's result by itself.
      const int first_slot =
          uniform(info.part == 0 ? 0 : info.item * plan_.slots + 1 + blocks.begin - info.first_run);
      const int list_size = uniform(info.list_size);
      float sums[kConsumerTiles][kTileSums] = {};
      SoftmaxState states[2];
      const int num_blocks = blocks.end - blocks.begin;
      const int first_own = (consumer_ ^ num_begun_) % 2;
      if (first_own >= num_blocks) release(&smem_.q_empty);
      for (int i = 0; i < num_blocks; i += 2) {
        const int own = i + first_own;
        if (own < num_blocks) {
          weigh(num_begun_ + own, list_size - (blocks.begin + own) * kBlockEntries);
          if (own + 2 >= num_blocks) release(&smem_.q_empty);
        }
        for (int j = i; j < min(i + 2, num_blocks); ++j) {
          gather(num_begun_ + j, first_slot == 0 ? 0 : first_slot + j, sums, states);
        }
      }
      num_begun_ += num_blocks;
      if (info.part == 0) finish(info, sums, states);
    }
  }

 private:
  /// Once for each warp.
  __device__ void release(std::uint64_t* barrier) const {
    __syncwarp();
    if (lane_ == 0) ptx::mbarrier_arrive(barrier);
  }

  /// Scores of block `number`, of which the first `num_valid` entries exist, to weights.
  __device__ void weigh(int number, int num_valid) {
    const int stage = number % kStages, parity = number / kStages % 2;
    constexpr int kRowGroupBytes = 1024;
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

    if (num_valid < kBlockEntries) {
#pragma unroll
      for (int i = 0; i < kTileSums; ++i) {
        if (8 * (i / 4) + 2 * (lane_ % 4) + i % 2 >= num_valid) scores[i] = -INFINITY;
      }
    }
#pragma unroll
    for (int head = 0; head < 2; ++head) {
      float maximum = -INFINITY;
#pragma unroll
      for (int i = 0; i < kTileSums; i += 4) {
        maximum = fmaxf(maximum, fmaxf(scores[i + 2 * head], scores[i + 2 * head + 1]));
      }
      maximum = warp_max<4>(maximum) * launch_.scale_log2;
      float sum = 0;
#pragma unroll
      for (int i = 2 * head; i < kTileSums; i += i % 2 == 0 ? 1 : 3) {
        scores[i] = ptx::exp2_approx(fmaf(scores[i], launch_.scale_log2, -maximum));
        sum += scores[i];
      }
      sum = warp_sum<4>(sum);
      if (lane_ % 4 == 0) smem_.softmax[stage][row_ + 8 * head] = {maximum, sum};
    }
#pragma unroll
    for (int step = 0; step < kBlockEntries / kDepth; ++step) {
      const float* score = scores + 8 * step;
      smem_.weights[stage][step][thread_] = {pack_bf16(score[0], score[1]), pack_bf16(score[2], score[3]),
                                             pack_bf16(score[4], score[5]), pack_bf16(score[6], score[7])};
    }
    ptx::mbarrier_arrive(&smem_.weights_full[stage]);
  }

  /// Adds block `number`'s weights times values to this consumer's dims; slot > 0: leaves them there instead.
  __device__ void gather(int number, int slot, float (&sums)[kConsumerTiles][kTileSums],
                         SoftmaxState (&states)[2]) {
    const int stage = number % kStages, parity = number / kStages % 2;
    constexpr int kRowGroupBytes = 1024;
    ptx::mbarrier_wait(&smem_.keys_full[stage], parity);
    ptx::mbarrier_wait(&smem_.weights_full[stage], parity);
    std::uint32_t weights[kBlockEntries / kDepth][4];
#pragma unroll
    for (int step = 0; step < kBlockEntries / kDepth; ++step) {
      const uint4 words = smem_.weights[stage][step][thread_];
      weights[step][0] = words.x;
      weights[step][1] = words.y;
      weights[step][2] = words.z;
      weights[step][3] = words.w;
    }
    const float2 softmax[2] = {smem_.softmax[stage][row_], smem_.softmax[stage][row_ + 8]};
    MergeFactors factors[2];
    if (slot == 0) {
#pragma unroll
      for (int head = 0; head < 2; ++head)
        factors[head] = states[head].merge(softmax[head].x, softmax[head].y);
    } else if (consumer_ == 0 && lane_ % 4 == 0) {
      plan_.partials.softmax[slot * kGroupHeads + row_] = softmax[0];
      plan_.partials.softmax[slot * kGroupHeads + row_ + 8] = softmax[1];
    }
    const std::uint64_t values = ptx::wgmma_descriptor(smem_.keys[stage][consumer_ * kConsumerTiles],
                                                       ptx::SmemSwizzle::k128B, kRowGroupBytes);
    float block[2][kSliceSums];
    multiply(weights, values, 0, block[0]);
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      float(&done)[kSliceSums] = block[slice % 2];
      if (slice + 1 < kSlices) {
        multiply(weights, values, slice + 1, block[(slice + 1) % 2]);
        ptx::wgmma_wait<1>();
      } else {
        ptx::wgmma_wait<0>();
      }
#pragma unroll
      for (float& value : done) ptx::wgmma_hold(value);
      if (slice == kSlices - 1) release(&smem_.keys_empty[stage][consumer_]);
      if (slot == 0) {
#pragma unroll
        for (int i = 0; i < kSliceSums; ++i) {
          float& sum = sums[slice * kSliceDims / kTileDims][slice * kSliceSums % kTileSums + i];
          sum = SoftmaxState::merged(sum, done[i], factors[i % 4 / 2]);
        }
      } else {
        leave<kSliceSums>(slot, consumer_ * kConsumerTiles + slice * kSliceDims / kTileDims,
                          slice * kSliceSums % kTileSums, done);
      }
    }
  }

  static constexpr int kSliceDims = 32;
  static constexpr int kSliceSums = kSliceDims / 2;
  static constexpr int kSlices = kConsumerTiles * kTileDims / kSliceDims;

  /// Begins weights times values for a slice of this consumer's dims.
  __device__ static void multiply(const std::uint32_t (&weights)[kBlockEntries / kDepth][4],
                                  std::uint64_t values, int slice, float (&block)[kSliceSums]) {
    const int bytes = slice * kSliceDims / kTileDims * kTileBytes + slice * kSliceDims % kTileDims * 2;
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBlockEntries / kDepth; ++step) {
      constexpr int kStepBytes = kDepth * kTileDims * 2;
      ptx::wgmma_bf16<kSliceDims, true>(block, weights[step], values + (bytes + step * kStepBytes) / 16,
                                        step != 0);
    }
    ptx::wgmma_commit();
  }

  template <int kCount>
  __device__ void leave(int slot, int dim_tile, int first, const float (&values)[kCount]) const {
    float4* to = plan_.partials.tile(slot, dim_tile, thread_) + first / 4 * kWarpgroupThreads;
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      to[i / 4 * kWarpgroupThreads] = {values[i], values[i + 1], values[i + 2], values[i + 3]};
    }
  }

  /// Of part 0: the output, or the state that the other parts' blocks are merged into.
  __device__ void finish(const TaskInfo& info, const float (&sums)[kConsumerTiles][kTileSums],
                         const SoftmaxState (&states)[2]) const {
    const int num_left = info.num_blocks - info.first_run;
    if (plan_.parts > 1 && consumer_ == 0 && thread_ == 0) {
      plan_.partials.counts[info.item] = num_left == 0 ? 0 : 1 + num_left;
    }
    if (num_left > 0) {
      const int slot = info.item * plan_.slots;
      if (consumer_ == 0 && lane_ % 4 == 0) {
#pragma unroll
        for (int head = 0; head < 2; ++head) {
          plan_.partials.softmax[slot * kGroupHeads + row_ + 8 * head] = {states[head].maximum,
                                                                          states[head].denominator};
        }
      }
#pragma unroll
      for (int tile = 0; tile < kConsumerTiles; ++tile)
        leave(slot, consumer_ * kConsumerTiles + tile, 0, sums[tile]);
      return;
    }
    float inverse[2];
    inverse_denominators(launch_, info.group, row_, states, info.num_blocks == 0, inverse);
#pragma unroll
    for (int tile = 0; tile < kConsumerTiles; ++tile) {
      store_tile(launch_, info.query, info.group, consumer_ * kConsumerTiles + tile, thread_, sums[tile],
                 inverse);
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
