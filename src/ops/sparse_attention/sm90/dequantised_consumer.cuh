/// The two consumer warpgroups of attention over dequantised rows.
///
/// Consumer 0 computes scores and weights of a list's even blocks, consumer 1 of the odd ones, side by side;
/// then both add weights times values, block after block in list order, each for its half of the dims. What a
/// block needs besides its values is brought into registers while the block before is being added.
///
/// A thread holds two heads (row and row + 8 of the instruction's 64) and, of each tile of 64 dims, 16 values
/// of both.
#pragma once

#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_bf16.h"
#include "ops/sparse_attention/sm90/block_merge.cuh"
#include "ops/sparse_attention/sm90/block_weights.cuh"
#include "ops/sparse_attention/sm90/dequantised_smem.cuh"
#include "ops/sparse_attention/sm90/finish_output.cuh"

namespace baleen::sm90 {

class DequantisedConsumer {
 public:
  __device__ DequantisedConsumer(const AttentionLaunch& launch, const DequantisedRun& run, int groups,
                                 DequantisedSmem& smem)
      : launch_(launch),
        run_(run),
        groups_(groups),
        smem_(smem),
        consumer_(uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads)),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads),
        lane_(thread_ % kWarpLanes),
        row_(thread_ / kWarpLanes * 16 + lane_ / 4) {}

  __device__ void run() {
    const int num_tasks = launch_.num_rows * groups_;
    int task = static_cast<int>(blockIdx.x), list_size = size_of(task);
    for (int num_done = 0; task < num_tasks; ++num_done) {
      const int next_task = task + static_cast<int>(gridDim.x);
      const int next_size = next_task < num_tasks ? size_of(next_task) : 0;
      ptx::mbarrier_wait(&smem_.q_full, num_done % 2);
      Sums sums = {};
      SoftmaxState state;
      if (consumer_ == 0) {
        add_even_first(list_size, sums, state);
      } else {
        add_odd_first(list_size, sums, state);
      }
      num_begun_ += blocks_of(list_size);
      finish(task, list_size, sums, state);
      task = next_task;
      list_size = next_size;
    }
  }

 private:
  using Sums = float[kConsumerTiles * kTileSums];
  using Scores = float[kTileSums];
  static constexpr int kSteps = kWidth / kDepth, kTileSteps = kTileDims / kDepth;

  /// A block's weights as operands, and what merging them needs.
  struct Weights {
    BlockWeights values;
    float2 softmax[2];
    float kept[2];  ///< what the sums so far are multiplied with
  };

  [[nodiscard]] __device__ static int blocks_of(int list_size) {
    return (list_size + kBlockEntries - 1) / kBlockEntries;
  }

  [[nodiscard]] __device__ int size_of(int task) const {
    return uniform(__ldcg(&run_.queries[task / groups_].size));
  }

  /// Once for each warp.
  __device__ void release(std::uint64_t* barrier) const {
    __syncwarp();
    if (lane_ == 0) ptx::mbarrier_arrive(barrier);
  }

  __device__ void add_even_first(int list_size, Sums& sums, SoftmaxState& state) {
    const int num_blocks = blocks_of(list_size);
    if (num_blocks == 0) release(&smem_.q_empty);
    for (int i = 0; i < num_blocks; i += 2) {
      Scores scores;
      Weights even, odd;
      begin_scores(num_begun_ + i, scores);
      ptx::wgmma_wait<0>();
      hold(scores);
      if (i + 2 >= num_blocks) release(&smem_.q_empty);
      weigh(scores, list_size - i * kBlockEntries, num_begun_ + i, even);
      state.take_in(even.softmax, even.values, even.kept);
      begin_adding(num_begun_ + i, even, sums);
      if (i + 1 < num_blocks) {
        take(num_begun_ + i + 1, odd);
        state.take_in(odd.softmax, odd.values, odd.kept);
      }
      finish_adding(num_begun_ + i, even, sums);
      if (i + 1 == num_blocks) break;
      begin_adding(num_begun_ + i + 1, odd, sums);
      finish_adding(num_begun_ + i + 1, odd, sums);
    }
  }

  __device__ void add_odd_first(int list_size, Sums& sums, SoftmaxState& state) {
    const int num_blocks = blocks_of(list_size);
    if (num_blocks < 2) release(&smem_.q_empty);
    int i = 0;
    for (; i + 1 < num_blocks; i += 2) {
      Scores scores;
      Weights even, odd;
      begin_scores(num_begun_ + i + 1, scores);
      ptx::wgmma_wait<0>();
      hold(scores);
      if (i + 3 >= num_blocks) release(&smem_.q_empty);
      weigh(scores, list_size - (i + 1) * kBlockEntries, num_begun_ + i + 1, odd);
      take(num_begun_ + i, even);
      state.take_in(even.softmax, even.values, even.kept);
      begin_adding(num_begun_ + i, even, sums);
      state.take_in(odd.softmax, odd.values, odd.kept);
      finish_adding(num_begun_ + i, even, sums);
      begin_adding(num_begun_ + i + 1, odd, sums);
      finish_adding(num_begun_ + i + 1, odd, sums);
    }
    if (i == num_blocks) return;
    Weights last;
    take(num_begun_ + i, last);
    state.take_in(last.softmax, last.values, last.kept);
    begin_adding(num_begun_ + i, last, sums);
    finish_adding(num_begun_ + i, last, sums);
  }

  __device__ static void hold(Scores& scores) {
#pragma unroll
    for (float& score : scores) ptx::wgmma_hold(score);
  }

  /// Queues the products of queries and keys of block `number`, dims in order.
  __device__ void begin_scores(int number, Scores& scores) {
    const int stage = number % kStages, parity = number / kStages % 2;
    const std::uint64_t q = ptx::wgmma_descriptor(smem_.q, ptx::SmemSwizzle::k128B, kRowGroupBytes);
    const std::uint64_t keys =
        ptx::wgmma_descriptor(smem_.keys[stage], ptx::SmemSwizzle::k128B, kRowGroupBytes);
    ptx::mbarrier_wait(&smem_.keys_full[stage][0], parity);
    ptx::mbarrier_wait(&smem_.keys_full[stage][1], parity);
    ptx::fence_proxy_async();
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int bytes = step / kTileSteps * kTileBytes + step % kTileSteps * kDepth * 2;
      ptx::wgmma_bf16<kBlockEntries>(scores, q + bytes / 16, keys + bytes / 16, step != 0);
    }
    ptx::wgmma_commit();
  }

  /// Scores of block `number`, of which the first `num_valid` entries exist, to weights, for both consumers.
  __device__ void weigh(Scores& scores, int num_valid, int number, Weights& weights) {
    const int stage = number % kStages;
    weigh_scores(scores, num_valid, launch_.scale_log2, weights.softmax);
#pragma unroll
    for (int step = 0; step < kBlockSteps; ++step) {
      const uint4 words = pack_weights(scores + 8 * step);
      smem_.weights[stage][step][thread_] = words;
      unpack(words, weights.values[step]);
    }
    if (lane_ % 4 == 0) {
      smem_.softmax[stage][row_] = weights.softmax[0];
      smem_.softmax[stage][row_ + 8] = weights.softmax[1];
    }
    ptx::mbarrier_arrive(&smem_.weights_full[stage]);
  }

  /// The other consumer's weights of block `number`.
  __device__ void take(int number, Weights& weights) {
    const int stage = number % kStages;
    ptx::mbarrier_wait(&smem_.weights_full[stage], number / kStages % 2);
#pragma unroll
    for (int step = 0; step < kBlockSteps; ++step) {
      unpack(smem_.weights[stage][step][thread_], weights.values[step]);
    }
    weights.softmax[0] = smem_.softmax[stage][row_];
    weights.softmax[1] = smem_.softmax[stage][row_ + 8];
  }

  __device__ static void unpack(const uint4& words, std::uint32_t (&values)[4]) {
    values[0] = words.x;
    values[1] = words.y;
    values[2] = words.z;
    values[3] = words.w;
  }

  /// Queues block `number`'s weights times values, for this consumer's dims.
  __device__ void begin_adding(int number, const Weights& weights, Sums& sums) {
    SoftmaxState::scale(sums, weights.kept);
    const std::uint64_t values =
        ptx::wgmma_transposed_descriptor(smem_.keys[number % kStages][consumer_ * kConsumerTiles],
                                         ptx::SmemSwizzle::k128B, kRowGroupBytes, kTileBytes);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBlockSteps; ++step) {
      constexpr int kStepBytes = kDepth / 8 * kRowGroupBytes;
      ptx::wgmma_bf16<kConsumerTiles * kTileDims, true>(sums, weights.values[step],
                                                        values + step * kStepBytes / 16, true);
    }
    ptx::wgmma_commit();
  }

  __device__ void finish_adding(int number, const Weights& weights, Sums& sums) {
    ptx::wgmma_wait<0>();
#pragma unroll
    for (float& sum : sums) ptx::wgmma_hold(sum);
#pragma unroll
    for (const auto& step : weights.values) {
#pragma unroll
      for (const std::uint32_t word : step) ptx::wgmma_hold_operand(word);
    }
    // Every phase is waited for by everyone, the consumer's own too: the next one might be taken for it
    // otherwise.
    ptx::mbarrier_wait(&smem_.weights_full[number % kStages], number / kStages % 2);
    release(&smem_.keys_empty[number % kStages][consumer_]);
  }

  __device__ void finish(int task, int list_size, const Sums& sums, const SoftmaxState& state) const {
    const int query = task / groups_, group = task % groups_;
    float inverse[2];
    inverse_denominators(sinks_of(launch_, group, row_), state, list_size == 0, inverse);
#pragma unroll
    for (int tile = 0; tile < kConsumerTiles; ++tile) {
      store_tile(launch_, query, group, consumer_ * kConsumerTiles + tile, thread_, sums + tile * kTileSums,
                 inverse);
    }
  }

  const AttentionLaunch& launch_;
  const DequantisedRun& run_;
  int groups_;
  DequantisedSmem& smem_;
  int consumer_, thread_, lane_;
  int row_;            ///< head of the group, of the thread's first
  int num_begun_ = 0;  ///< blocks, over all tasks
};

}  // namespace baleen::sm90
