/// The producer warpgroup of attention over dequantised rows: copies queries and the rows of their lists, 16
/// bytes at a time.
///
/// Eight threads share a row's 128 bytes of each tile, 16 rows at a time are a quarter of a block. The
/// numbers that the next block's rows have in the selection are loaded while this one's are being copied.
#pragma once

#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/mbarrier.h"
#include "ops/sparse_attention/sm90/dequantise_rows.cuh"
#include "ops/sparse_attention/sm90/dequantised_smem.cuh"

namespace baleen::sm90 {

class DequantisedProducer {
 public:
  __device__ DequantisedProducer(const AttentionLaunch& launch, const DequantisedRun& run, int groups,
                                 DequantisedSmem& smem)
      : launch_(launch),
        run_(run),
        groups_(groups),
        smem_(smem),
        entry_(static_cast<int>(threadIdx.x) % kWarpgroupThreads / kRowThreads),
        piece_(static_cast<int>(threadIdx.x) % kRowThreads) {}

  __device__ void run() {
    const int num_tasks = launch_.num_rows * groups_, step = static_cast<int>(gridDim.x);
    int task = static_cast<int>(blockIdx.x);
    DequantisedQuery list = list_of(task);
    Selection ahead = selection(list, task, 0);
    begin_later(num_tasks, list.size);
    for (int num_done = 0; task < num_tasks; ++num_done) {
      const int next_task = task + step;
      const DequantisedQuery next_list = list_of(min(next_task, num_tasks - 1));
      copy_queries(task, num_done);
      for (int first = 0; first < list.size; first += kBlockEntries) {
        const Selection now = ahead;
        ahead = selection(list, task, first + kBlockEntries);
        copy_block(list, first, now);
      }
      task = next_task;
      list = next_list;
      ahead = selection(list, min(task, num_tasks - 1), 0);
    }
  }

 private:
  static constexpr int kRowThreads = 8;
  static constexpr int kQuarterRows = kWarpgroupThreads / kRowThreads;
  static constexpr int kQuarters = kBlockEntries / kQuarterRows;

  /// Of this thread's rows of a block.
  struct Selection {
    std::int32_t entries[kQuarters];
  };
  struct Sources {
    const std::byte* rows[kQuarters];  ///< null: zeros
  };

  /// Tasks of a prompt take equally long: thread blocks that begin together store results and fetch queries
  /// at the same moments, and memory is idle in between. Those that have a task fewer than others begin
  /// later, up to a task's time.
  __device__ static void begin_later(int num_tasks, int list_size) {
    constexpr long long kBlockCycles = 2800;  // about what a block of entries takes
    const int blocks = static_cast<int>(gridDim.x), busier = num_tasks % blocks;
    const int place = static_cast<int>(blockIdx.x) - busier;
    if (busier == 0 || place < 0) return;
    const long long task_cycles = list_size / kBlockEntries * kBlockCycles;
    const long long until = clock64() + task_cycles * place / (blocks - busier);
    while (clock64() < until) __nanosleep(100);
  }

  [[nodiscard]] __device__ DequantisedQuery list_of(int task) const {
    const int4 words = __ldcg(reinterpret_cast<const int4*>(run_.queries + task / groups_));
    return {words.x, words.y, words.z, words.w};
  }

  /// Reads alone, side by side: what they mean is worked out a block later.
  [[nodiscard]] __device__ Selection selection(const DequantisedQuery& list, int task, int first) const {
    Selection selection{};
    if (launch_.ratio != 4 || list.size == list.num_window) return selection;
    const std::int32_t* selected = launch_.selected + task / groups_ * launch_.selected_stride;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const int entry = first + i * kQuarterRows + entry_ - list.num_window;
      selection.entries[i] = selected[min(max(entry, 0), launch_.top_k - 1)];
    }
    return selection;
  }

  [[nodiscard]] __device__ Sources sources(const DequantisedQuery& list, int first,
                                           const Selection& selection) const {
    Sources sources;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const int index = first + i * kQuarterRows + entry_, entry = index - list.num_window;
      const int row = entry < 0            ? list.first_window_row + index
                      : launch_.ratio == 4 ? list.first_entry_row + selection.entries[i]
                                           : list.first_entry_row + entry;
      sources.rows[i] = index < list.size
                            ? reinterpret_cast<const std::byte*>(run_.rows) + std::int64_t{row} * (kWidth * 2)
                            : nullptr;
    }
    return sources;
  }

  /// Dims from tile `first_tile` on, as many tiles as a consumer owns, to the same tiles of `tiles`.
  __device__ void copy_half(const Sources& sources, int first_tile, std::byte (&tiles)[kDimTiles][kTileBytes],
                            std::uint64_t* full) {
    std::byte* to = chunk_of(tiles[first_tile], entry_, piece_);
    const auto* zeros = reinterpret_cast<const std::byte*>(run_.rows);
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const bool valid = sources.rows[i] != nullptr;
      const std::byte* from =
          (valid ? sources.rows[i] : zeros) + first_tile * kTileDims * 2 + piece_ * sizeof(uint4);
#pragma unroll
      for (int tile = 0; tile < kConsumerTiles; ++tile) {
        ptx::cp_async_16(to + tile * kTileBytes + i * kQuarterRows * kTileDims * 2,
                         from + tile * kTileDims * 2, valid);
      }
    }
    ptx::cp_async_arrive(full);
  }

  /// A task's, once the consumers have the scores of the task before.
  __device__ void copy_queries(int task, int num_done) {
    const Bf16Bits* q = launch_.q + task / groups_ * launch_.q_row_stride;
    Sources sources;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const int head = task % groups_ * kGroupHeads + i * kQuarterRows + entry_;
      sources.rows[i] = head < launch_.num_heads
                            ? reinterpret_cast<const std::byte*>(q + head * launch_.q_head_stride)
                            : nullptr;
    }
    ptx::mbarrier_wait(&smem_.q_empty, num_done % 2 ^ 1);
    for (int half = 0; half < kConsumers; ++half) {
      copy_half(sources, half * kConsumerTiles, smem_.q, &smem_.q_full);
    }
  }

  __device__ void copy_block(const DequantisedQuery& list, int first, const Selection& selection) {
    const int stage = num_filled_ % kStages, parity = num_filled_ / kStages % 2 ^ 1;
    const Sources rows = sources(list, first, selection);
    for (int half = 0; half < kConsumers; ++half) {
      ptx::mbarrier_wait(&smem_.keys_empty[stage][half], parity);
      copy_half(rows, half * kConsumerTiles, smem_.keys[stage], &smem_.keys_full[stage][half]);
    }
    ++num_filled_;
  }

  const AttentionLaunch& launch_;
  const DequantisedRun& run_;
  int groups_;
  DequantisedSmem& smem_;
  int entry_, piece_;
  int num_filled_ = 0;  ///< blocks, over all tasks
};

}  // namespace baleen::sm90
