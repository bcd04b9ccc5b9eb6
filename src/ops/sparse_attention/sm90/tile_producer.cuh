/// The producer warpgroup of attention on tiles: finds the rows of a query's list and writes them as BF16
/// keys.
///
/// Four threads share a row, 32 rows at a time are half a block. Thread t of a row takes codes 16 t .. of
/// each 64 that share a scale, so that two of its 16-byte stores with those of the neighbouring row touch all
/// banks.
///
/// Codes are loaded a block ahead, 28 KB in flight: those of the first half into registers, of the second
/// into shared memory. As soon as a piece is dequantised, the load of the same piece of the next block is
/// issued. A row's page is loaded another block earlier, and its number in the selection another.
///
/// Where the rows of the first task are it finds out before the kernel before has ended, as far as the step's
/// batch says it.
///
/// In a pair it dequantises a half of each block alone, and TMA copies that to the other thread block.
#pragma once

#include <cuda.h>

#include "cuda/ptx/bulk_copy.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "ops/sparse_attention/sm90/dequantise_rows.cuh"
#include "ops/sparse_attention/sm90/tile_smem.cuh"

namespace baleen::sm90 {

/// kInPairs: of a pair of thread blocks (tile_smem.cuh). kOneQuery: which always work at the same query.
template <bool kInPairs, bool kOneQuery>
class KeyProducer {
 public:
  __device__ KeyProducer(const AttentionLaunch& launch, const CUtensorMap& q_map, const WorkPlan& plan,
                         TileSmem& smem)
      : launch_(launch),
        q_map_(q_map),
        plan_(plan),
        smem_(smem),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads) {}

  __device__ void run() {
    for (int task = static_cast<int>(blockIdx.x); task < plan_.num_tasks();
         task += static_cast<int>(gridDim.x), ++num_done_) {
      const int item = task / plan_.parts, part = task % plan_.parts;
      const int query = item / plan_.groups, group = item % plan_.groups;
      EntryList list = item < plan_.items ? list_of(query) : EntryList{};
      const int num_blocks = (list.size + kBlockEntries - 1) / kBlockEntries;
      BlockRange blocks = plan_.range(num_blocks, part);
      blocks = {uniform(blocks.begin), uniform(blocks.end)};
      TaskInfo info{.query = query,
                    .group = group,
                    .list_size = list.size,
                    .blocks = blocks,
                    .pair_end = blocks.end,
                    .first_slot = plan_.shares(num_blocks) ? item * plan_.slots : -1,
                    .nothing = part != 0 || item >= plan_.items};
      list.size = min(list.size, blocks.end * kBlockEntries);  // nothing beyond is loaded
      int first_shared = 0;
      if constexpr (kInPairs && !kOneQuery) first_shared = compare(list, task ^ 1, info);
      if (blocks.begin >= blocks.end) {
        begin(info);
      } else if constexpr (kInPairs) {
        fill_halves(list, info, first_shared);
      } else {
        fill(list, info);
      }
      if constexpr (kInPairs) {
        for (int block = blocks.end; block < info.pair_end; ++block, ++num_filled_) {
          ptx::mbarrier_arrive(&smem_.keys_full[free_stage()]);
        }
      }
    }
  }

 private:
  static constexpr int kRowThreads = 4;
  static constexpr int kHalfRows = kWarpgroupThreads / kRowThreads;
  static constexpr int kWarpRows = kWarpLanes / kRowThreads;  ///< eight: a row group of a swizzled tile
  static constexpr int kCodeBlocks = kNope / kLatentBlock;

  /// With several parts an item `gather_tiles` comes next: begun any earlier it took 10 us longer in a
  /// decode step.
  __device__ void wait_and_launch_next() const {
    ptx::wait_for_previous_kernel();
    if (plan_.parts > 1) ptx::launch_next_kernel();
  }

  [[nodiscard]] __device__ EntryList list_of(int query) const {
    EntryList list = EntryList::without_selected(launch_, query);
    if (launch_.ratio == EntryList::kSelectedRatio) {
      wait_and_launch_next();
      list.append_selected(launch_, query);
    }
    return list;
  }

  /// Queries and description of a task, once the consumers have the scores of the task before.
  __device__ void begin(const TaskInfo& info) {
    if (thread_ != 0) return;
    ptx::mbarrier_wait(&smem_.q_empty, num_done_ % 2 ^ 1);
    smem_.tasks[num_done_ % 2] = info;
    if (info.blocks.begin >= info.blocks.end) {  // nothing to multiply the queries with
      ptx::mbarrier_arrive(&smem_.q_full);
      return;
    }
    ptx::mbarrier_arrive_expect(&smem_.q_full, kDimTiles * kTileBytes);
    for (int tile = 0; tile < kDimTiles; ++tile) {
      ptx::tma_load(smem_.q[tile], q_map_, &smem_.q_full, tile * kTileDims * 2, info.group * kGroupHeads,
                    info.query);
    }
  }

  [[nodiscard]] __device__ RowPlace place(const EntryList& list, int index, int row, PageId page) const {
    return {index < list.num_window ? launch_.window : launch_.compressed, page, row, kDataBytes,
            kScaleBytes};
  }

  /// What a thread knows of its row in half a block to come.
  struct RowAhead {
    int row;        ///< two blocks ahead
    PageId page;    ///< of that
    int row_after;  ///< three blocks ahead
  };

  /// Where the row at `index` is, which `ahead` was about; asks for the page and the number of those to come.
  __device__ RowPlace advance(const EntryList& list, int index, RowAhead& ahead) const {
    const RowPlace next = place(list, index, ahead.row, ahead.page);
    ahead.row = ahead.row_after;
    ahead.page = list.page(launch_, index + kBlockEntries, ahead.row);
    ahead.row_after = list.row(index + 2 * kBlockEntries);
    return next;
  }

  /// With the list of the pair's other task, another query's. Both go through as many blocks as the longer
  /// one has, and share those from the returned one on: the compressed ones of the same sequence, in lists of
  /// as many blocks.
  __device__ int compare(EntryList& list, int other_task, TaskInfo& info) const {
    const int num_blocks = info.blocks.end, other_query = other_task / plan_.groups;
    const EntryList other = other_task < plan_.items ? list_of(other_query) : EntryList{};
    const int other_blocks = uniform((other.size + kBlockEntries - 1) / kBlockEntries);
    info.pair_end = max(num_blocks, other_blocks);
    if (num_blocks != other_blocks || list.selected != nullptr || list.pages != other.pages ||
        list.num_window != other.num_window) {
      return num_blocks;
    }
    // The last block may have a row more in the other list. The consumers here pass over it.
    list.size = max(list.size, other.size);
    return min(num_blocks, uniform((list.num_window + kBlockEntries - 1) / kBlockEntries));
  }

  /// Waits until the stage of the next block is free.
  [[nodiscard]] __device__ int free_stage() const {
    const int stage = num_filled_ % kStages, parity = num_filled_ / kStages % 2 ^ 1;
    for (int consumer = 0; consumer < kConsumers; ++consumer) {
      ptx::mbarrier_wait(&smem_.keys_empty[stage][consumer], parity);
    }
    return stage;
  }

  __device__ void fill(const EntryList& list, const TaskInfo& info) {
    const BlockRange blocks = info.blocks;
    const int piece = thread_ % kRowThreads, entry = thread_ / kRowThreads;
    int index = blocks.begin * kBlockEntries + entry;  // of the first half

    RowAhead ahead[2];
    RowPlace first[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = index + half * kHalfRows;
      const int row = list.row(at);
      ahead[half].row = list.row(at + kBlockEntries);
      ahead[half].row_after = list.row(at + 2 * kBlockEntries);
      first[half] = place(list, at, row, list.page(launch_, at, row));
      ahead[half].page = list.page(launch_, at + kBlockEntries, ahead[half].row);
    }
    wait_and_launch_next();
    const std::byte* data[2] = {first[0].data, first[1].data};  // of the block that is on its way
    uint2 scales[2] = {load_scales(first[0]), load_scales(first[1])};
    uint4 codes[kCodeBlocks];
#pragma unroll
    for (int i = 0; i < kCodeBlocks; ++i) {
      codes[i] = load_codes(data[0], i, piece);
      copy_codes(data[1], i, piece);
    }
    ptx::cp_async_commit();
    begin(info);

    for (int block = blocks.begin; block < blocks.end; ++block, ++num_filled_) {
      const int stage = free_stage();
      copy_rope(data[0], stage, entry, piece);
      copy_rope(data[1], stage, entry + kHalfRows, piece);
      ptx::cp_async_commit();

      index += kBlockEntries;
      RowPlace next = advance(list, index, ahead[0]);
      data[0] = next.data;
#pragma unroll
      for (int i = 0; i < kCodeBlocks; ++i) {
        store_dequantised(codes[i], scale_of(scales[0], i), smem_.keys[stage][i], entry, piece);
        codes[i] = load_codes(data[0], i, piece);
      }
      multiply_large(scales[0], stage, entry, piece);
      scales[0] = load_scales(next);

      next = advance(list, index + kHalfRows, ahead[1]);
      data[1] = next.data;
      ptx::cp_async_wait<1>();  // the second half's codes
#pragma unroll
      for (int i = 0; i < kCodeBlocks; ++i) {
        store_dequantised(smem_.codes[i][thread_], scale_of(scales[1], i), smem_.keys[stage][i],
                          entry + kHalfRows, piece);
        copy_codes(data[1], i, piece);
      }
      ptx::cp_async_commit();
      multiply_large(scales[1], stage, entry + kHalfRows, piece);
      scales[1] = load_scales(next);

      ptx::cp_async_wait<1>();  // the rotary part
      ptx::fence_proxy_async();
      ptx::mbarrier_arrive(&smem_.keys_full[stage]);
    }
    ptx::cp_async_wait<0>();
  }

  /// Half a block at a time: both of those before `first_shared`, of the others the one with this thread
  /// block's rank. A row's codes wait in registers.
  __device__ void fill_halves(const EntryList& list, const TaskInfo& info, int first_shared) {
    const int rank = static_cast<int>(ptx::cluster_rank());
    const int piece = thread_ % kRowThreads, own_entry = thread_ / kRowThreads;
    const int num_alone = kOneQuery ? 0 : 2 * first_shared, num_halves = num_alone / 2 + info.blocks.end;
    const auto half_of = [&](int i) { return i < num_alone ? i : 2 * i - num_alone + rank; };
    const auto index_of = [&](int i) { return half_of(i) * kHalfRows + own_entry; };
    const auto row_of = [&](int i) { return i < num_halves ? list.row(index_of(i)) : -1; };
    RowAhead ahead{row_of(0), PageId::kNone, row_of(1)};
    ahead.page = list.page(launch_, index_of(0), ahead.row);
    const auto advance_to = [&](int i) {
      const RowPlace next = place(list, index_of(i), ahead.row, ahead.page);
      ahead.row = ahead.row_after;
      ahead.page = list.page(launch_, index_of(i + 1), ahead.row);
      ahead.row_after = row_of(i + 2);
      return next;
    };
    const RowPlace first = advance_to(0);
    wait_and_launch_next();
    const std::byte* data = first.data;
    uint2 scales = load_scales(first);
    uint4 codes[kCodeBlocks];
#pragma unroll
    for (int i = 0; i < kCodeBlocks; ++i) codes[i] = load_codes(data, i, piece);
    begin(info);

    for (int i = 0; i < num_halves; ++i) {
      const bool shared = i >= num_alone;
      const int stage = shared || i % 2 == 0 ? free_stage() : num_filled_ % kStages;
      const int entry = half_of(i) % 2 * kHalfRows + own_entry;
      copy_rope(data, stage, entry, piece);
      ptx::cp_async_commit();
      const RowPlace next = advance_to(i + 1);
      data = next.data;
#pragma unroll
      for (int k = 0; k < kCodeBlocks; ++k) {
        store_dequantised(codes[k], scale_of(scales, k), smem_.keys[stage][k], entry, piece);
        codes[k] = load_codes(data, k, piece);
      }
      multiply_large(scales, stage, entry, piece);
      scales = load_scales(next);
      if (!shared && i % 2 == 0) continue;
      ptx::cp_async_wait<0>();
      ptx::fence_proxy_async();
      if (shared && thread_ == 0) {
        ptx::mbarrier_arrive_expect(&smem_.keys_full[stage], kDimTiles * kTileBytes / 2);
      } else {
        ptx::mbarrier_arrive(&smem_.keys_full[stage]);
      }
      if (shared) send_rows(stage, rank);
      ++num_filled_;
    }
  }

  /// The eight rows of this warp to the other thread block of the pair, a lane for each tile.
  __device__ void send_rows(int stage, int rank) {
    __syncwarp();
    const int tile = thread_ % kWarpLanes, row_group = rank * kHalfRows / kWarpRows + thread_ / kWarpLanes;
    if (tile >= kDimTiles) return;
    ptx::bulk_copy_to_block(smem_.keys[stage][tile] + row_group * kRowGroupBytes, kRowGroupBytes,
                            &smem_.keys_full[stage], static_cast<unsigned>(rank) ^ 1U);
  }

  __device__ static uint4 load_codes(const std::byte* data, int block, int piece) {
    if (data == nullptr) return {0, 0, 0, 0};
    return __ldcg(reinterpret_cast<const uint4*>(data + block * kLatentBlock) + piece);
  }
  __device__ void copy_codes(const std::byte* data, int block, int piece) {
    const std::byte* from = data == nullptr ? launch_.window.base : data + block * kLatentBlock + piece * 16;
    ptx::cp_async_16(&smem_.codes[block][thread_], from, data != nullptr);
  }
  __device__ static uint2 load_scales(const RowPlace& place) {
    if (place.data == nullptr) return {0, 0};
    return __ldcg(reinterpret_cast<const uint2*>(place.scales));
  }

  __device__ static std::uint32_t scale_of(uint2 scales, int block) {
    return __byte_perm(scales.x, scales.y, static_cast<unsigned>(block)) & 0xFF;
  }

  /// The last tile is BF16 already.
  __device__ void copy_rope(const std::byte* data, int stage, int entry, int piece) {
    for (int chunk = piece; chunk < kRope * 2 / 16; chunk += kRowThreads) {
      const std::byte* from = data == nullptr ? launch_.window.base : data + kNope + chunk * 16;
      ptx::cp_async_16(chunk_of(smem_.keys[stage][kDimTiles - 1], entry, chunk), from, data != nullptr);
    }
  }

  __device__ void multiply_large(uint2 scales, int stage, int entry, int piece) {
    constexpr std::uint32_t kLargest = kLargestScale * 0x01010101u, kAllButPadding = 0xFFFFFFu;
    if ((__vcmpgtu4(scales.x, kLargest) | __vcmpgtu4(scales.y & kAllButPadding, kLargest)) == 0) return;
    for (int i = 0; i < kCodeBlocks; ++i) {
      multiply_by_rest(scale_of(scales, i), smem_.keys[stage][i], entry, piece);
    }
  }

  const AttentionLaunch& launch_;
  const CUtensorMap& q_map_;
  const WorkPlan& plan_;
  TileSmem& smem_;
  int thread_;
  int num_done_ = 0;    ///< tasks
  int num_filled_ = 0;  ///< blocks, over all tasks
};

}  // namespace baleen::sm90
