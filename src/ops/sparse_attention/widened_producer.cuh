/// The producer warpgroup of attention over widened rows: copies rows of a query's list, 16 bytes at a time.
///
/// Eight threads share a row's 128 bytes of each tile, 16 rows at a time are a quarter of a block. Which rows the next block
/// has is asked for while this one's are being copied.
#pragma once

#include <cuda.h>

#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "ops/sparse_attention/widen_rows.cuh"
#include "ops/sparse_attention/widened_smem.cuh"

namespace baleen::sm90 {

class WidenedProducer {
 public:
  __device__ WidenedProducer(const AttentionLaunch& launch, const WidenedRun& run, const CUtensorMap& q_map,
                             int groups, WidenedSmem& smem)
      : launch_(launch),
        run_(run),
        q_map_(q_map),
        groups_(groups),
        smem_(smem),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads),
        entry_(thread_ / kRowThreads),
        piece_(thread_ % kRowThreads) {}

  __device__ void run() {
    const int num_tasks = launch_.num_rows * groups_, step = static_cast<int>(gridDim.x);
    int task = static_cast<int>(blockIdx.x);
    if (task >= num_tasks) return;
    WidenedQuery list = list_of(task);
    int rows[kQuarters];
    find_rows(list, task / groups_, 0, rows);
    for (int num_done = 0; task < num_tasks; task += step, ++num_done) {
      const int next_task = min(task + step, num_tasks - 1);
      const WidenedQuery next_list = list_of(next_task);
      begin(task, next_task, list.size, num_done);
      for (int first = 0; first < list.size; first += kBlockEntries) {
        int rows_after[kQuarters];
        find_rows(list, task / groups_, first + kBlockEntries, rows_after);
        copy_block(rows);
#pragma unroll
        for (int i = 0; i < kQuarters; ++i) rows[i] = rows_after[i];
      }
      list = next_list;
      find_rows(list, next_task / groups_, 0, rows);
    }
  }

 private:
  static constexpr int kRowThreads = 8;
  static constexpr int kQuarterRows = kWarpgroupThreads / kRowThreads;
  static constexpr int kQuarters = kBlockEntries / kQuarterRows;

  [[nodiscard]] __device__ WidenedQuery list_of(int task) const {
    const int4 words = __ldcg(reinterpret_cast<const int4*>(run_.queries + task / groups_));
    return {words.x, words.y, words.z, words.w};
  }

  /// Of this thread's entries in the block that begins at `first`; -1 behind the end of the list.
  __device__ void find_rows(const WidenedQuery& list, int query, int first, int (&rows)[kQuarters]) const {
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const int index = first + i * kQuarterRows + entry_, entry = index - list.num_window;
      if (index >= list.size) {
        rows[i] = -1;
      } else if (entry < 0) {
        rows[i] = list.first_window_row + index;
      } else if (launch_.ratio == 4) {
        rows[i] = list.first_entry_row + __ldg(launch_.selected + query * launch_.selected_stride + entry);
      } else {
        rows[i] = list.first_entry_row + entry;
      }
    }
  }

  /// Queries and description of a task, once the consumers have the scores of the task before; the next one's queries are
  /// brought near.
  __device__ void begin(int task, int next_task, int list_size, int num_done) {
    if (thread_ != 0) return;
    ptx::mbarrier_wait(&smem_.q_empty, num_done % 2 ^ 1);
    const int query = task / groups_, group = task % groups_;
    smem_.tasks[num_done % 2] = {query, group, list_size};
    ptx::mbarrier_arrive_expect(&smem_.q_full, kDimTiles * kTileBytes);
    for (int tile = 0; tile < kDimTiles; ++tile) {
      ptx::tma_load(smem_.q[tile], q_map_, &smem_.q_full, tile * kTileDims * 2, group * kGroupHeads, query);
    }
    for (int tile = 0; tile < kDimTiles; ++tile) {
      ptx::tma_prefetch_l2(q_map_, tile * kTileDims * 2, next_task % groups_ * kGroupHeads,
                           next_task / groups_);
    }
  }

  __device__ void copy_block(const int (&rows)[kQuarters]) {
    const int stage = num_filled_ % kStages, parity = num_filled_ / kStages % 2 ^ 1;
    const std::byte* from[kQuarters];
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      from[i] = reinterpret_cast<const std::byte*>(run_.rows) +
                static_cast<std::int64_t>(max(rows[i], 0)) * (kWidth * 2) + piece_ * 16;
    }
    for (int half = 0; half < kConsumers; ++half) {
      ptx::mbarrier_wait(&smem_.keys_empty[stage][half], parity);
      std::byte* to = chunk_of(smem_.keys[stage][half * kConsumerTiles], entry_, piece_);
#pragma unroll
      for (int i = 0; i < kQuarters; ++i) {
#pragma unroll
        for (int tile = 0; tile < kConsumerTiles; ++tile) {
          ptx::cp_async_16(to + tile * kTileBytes + i * kQuarterRows * kTileDims * 2,
                           from[i] + (half * kConsumerTiles + tile) * kTileDims * 2, rows[i] >= 0);
        }
      }
      ptx::cp_async_arrive(&smem_.keys_full[stage][half]);
    }
    ++num_filled_;
  }

  const AttentionLaunch& launch_;
  const WidenedRun& run_;
  const CUtensorMap& q_map_;
  int groups_;
  WidenedSmem& smem_;
  int thread_, entry_, piece_;
  int num_filled_ = 0;  ///< blocks, over all tasks
};

}  // namespace baleen::sm90
