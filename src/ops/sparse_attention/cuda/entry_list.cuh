/// A query's list of cache rows on the device: the window, then the compressed entries (entry_list.h is its
/// twin).
///
/// Finding a row takes up to three dependent reads (selected entry, page, row), so they are separate steps
/// that a kernel can run ahead of each other.
#pragma once

#include "cuda/warp_reduce.cuh"
#include "ops/sparse_attention/cuda/attention_launch.h"

namespace baleen::BALEEN_ARCH {

struct EntryList {
  const PageId* window_pages = nullptr;
  const PageId* pages = nullptr;
  const std::int32_t* selected = nullptr;  ///< null: entries are numbered as they stand
  int first_window_position = 0;
  int num_window = 0;
  int size = 0;

  /// Of a whole warp, which all get the same. A padding row's is empty.
  __device__ static EntryList of(const AttentionLaunch& launch, int query) {
    EntryList list = without_selected(launch, query);
    list.append_selected(launch, query);
    return list;
  }

  /// What the step's batch alone says of it.
  __device__ static EntryList without_selected(const AttentionLaunch& launch, int query) {
    EntryList list;
    // All loads are issued before anything is waited for, as far as one read does not depend on another.
    const int position = launch.batch.positions[query];
    const DeviceSequence& sequence = launch.batch.sequences[launch.batch.sequence_of[query]];
    const int window_begin = sequence.window_begin, start = sequence.start;
    const int end_ahead = start + sequence.num_tokens;
    const bool sees_ahead = sequence.sees_ahead;
    list.window_pages = sequence.window_pages;
    list.pages = sequence.pages;
    if (position < 0) return {};
    if (launch.ratio != 0 && !launch.selects) list.size = (position + 1) / launch.ratio;
    list.first_window_position =
        max(window_begin, (sees_ahead ? start : position + 1) - launch.window_tokens);
    list.num_window = (sees_ahead ? end_ahead : position + 1) - list.first_window_position;
    list.size += list.num_window;
    return list;
  }

  /// What the indexer chose, if it chooses in this layer. By a whole warp.
  __device__ void append_selected(const AttentionLaunch& launch, int query) {
    if (!launch.selects) return;
    const std::int32_t* of_query = launch.selected + query * launch.selected_stride;
    const int count = count_selected(of_query, launch.top_k);  // does not wait for the position
    if (pages == nullptr) return;                              // a padding row
    selected = of_query;
    size += count;
  }

  /// Number of the row in its pool's numbering of the sequence, -1 behind the end of the list.
  [[nodiscard]] __device__ int row(int index) const {
    if (index >= size) return -1;
    if (index < num_window) return first_window_position + index;
    const int entry = index - num_window;
    return selected != nullptr ? __ldcg(selected + entry) : entry;
  }
  /// The page that holds `row`, which is at `index`.
  [[nodiscard]] __device__ PageId page(const AttentionLaunch& launch, int index, int row) const {
    if (row < 0) return PageId::kNone;
    const PageId* page = index < num_window ? window_pages + (row >> launch.window.rows_shift)
                                            : pages + (row >> launch.compressed.rows_shift);
    return static_cast<PageId>(__ldcg(reinterpret_cast<const std::int32_t*>(page)));
  }

 private:
  /// Up to the first negative one. Many reads at a time: each waits as long as all of them.
  __device__ static int count_selected(const std::int32_t* selected, int top_k) {
    constexpr int kReads = 16;
    const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
    for (int begin = 0; begin < top_k; begin += kReads * kWarpLanes) {
      int end = top_k;
#pragma unroll
      for (int i = kReads - 1; i >= 0; --i) {
        const int at = begin + i * kWarpLanes + lane;
        if (at < top_k && __ldcg(selected + at) < 0) end = at;
      }
      end = __reduce_min_sync(kAllLanes, end);
      if (end < top_k) return end;
    }
    return top_k;
  }
};

/// Where a row's values and scales lie; null for no row.
struct RowPlace {
  const std::byte* data = nullptr;
  const std::byte* scales = nullptr;

  RowPlace() = default;
  __device__ RowPlace(const RowPool& pool, PageId page, int row, int data_bytes, int scale_bytes) {
    if (page == PageId::kNone) return;
    const std::byte* begin = pool.base + static_cast<std::int64_t>(page) * pool.page_stride_bytes;
    const int in_page = row & ((1 << pool.rows_shift) - 1);
    data = begin + in_page * data_bytes;
    scales = begin + (data_bytes << pool.rows_shift) + in_page * scale_bytes;
  }
};

}  // namespace baleen::BALEEN_ARCH
