/// The producer warpgroup of attention on tiles: finds the rows of the queries' lists and writes them as BF16 keys.
///
/// It writes half a block at a time, 32 rows, four threads each. Thread t of a row takes codes 16 t .. of each 64 that share
/// a scale, so that two of its 16-byte stores with those of the neighbouring row touch all banks.
///
/// Finding a row is a chain of reads. So half blocks pass through five steps, each one ahead of the next, across tasks: the
/// row's number in the selection, its page, the row into L2, its codes into registers, and widened into the stage. As soon
/// as a piece is widened, the same piece of the next half is asked for.
///
/// A half that the other thread block of the pair needs too goes there by the copy engine, eight rows of 64 dims at a time.
#pragma once

#include <cuda.h>

#include "cuda/ptx/bulk_copy.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "ops/sparse_attention/list_walk.cuh"
#include "ops/sparse_attention/tile_smem.cuh"
#include "ops/sparse_attention/widen_rows.cuh"

namespace baleen::sm90 {

class KeyProducer {
 public:
  __device__ KeyProducer(const AttentionLaunch& launch, const CUtensorMap& q_map, const WorkPlan& plan,
                         TileSmem& smem)
      : launch_(launch),
        q_map_(q_map),
        plan_(plan),
        smem_(smem),
        rank_(ptx::cluster_rank()),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads),
        entry_(thread_ / kRowThreads),
        piece_(thread_ % kRowThreads) {}

  __device__ void run() {
    ListWalk walk(launch_, plan_, smem_.opened, rank_);
    Numbered numbered;
    Paged paged;
    Placed next, here;
    uint4 codes[kCodeBlocks] = {};
    int num_reached = 0;  // tasks
    while ((here.bits & kEndOfTasks) == 0) {
      const Placed after = placed(paged);
      paged = page_of(numbered);
      numbered = number_of(walk);
      begin_tasks(walk.num_opened(), num_reached);
      widen(here, next.data, codes);
      if ((here.bits & kOpensTask) != 0) begin_tasks(walk.num_opened(), ++num_reached);
      here = next;
      next = after;
      walk.advance();
    }
  }

 private:
  static constexpr int kRowThreads = 4;
  static constexpr int kCodeBlocks = kNope / kLatentBlock;
  static constexpr int kWarpRows = kWarpLanes / kRowThreads;
  static_assert(kHalfEntries * kRowThreads == kWarpgroupThreads);

  /// What a thread knows of its row in a half block to come.
  struct Numbered {
    unsigned bits = 0;
    int row = -1;  ///< on its way; -1 for none
    bool in_window = false;
    const PageId* pages = nullptr;
  };
  struct Paged {
    unsigned bits = 0;
    int row = -1;
    bool in_window = false;
    PageId page = PageId::kNone;  ///< on its way
  };
  struct Placed {
    unsigned bits = 0;
    const std::byte* data = nullptr;  ///< null for no row
    uint2 scales = {0, 0};            ///< on their way
  };

  __device__ Numbered number_of(const ListWalk& walk) const {
    Numbered next{walk.bits(), -1, false, nullptr};
    if ((next.bits & kHasRows) == 0) return next;
    const EntryList& list = walk.list();
    const int index = walk.index() + ((next.bits & kUpperHalf) != 0 ? kHalfEntries : 0) + entry_;
    next.row = list.row(index);
    next.in_window = index < list.num_window;
    next.pages = next.in_window ? list.window_pages : list.pages;
    return next;
  }

  __device__ Paged page_of(const Numbered& half) const {
    Paged next{half.bits, half.row, half.in_window, PageId::kNone};
    if (half.row < 0) return next;
    const int shift = half.in_window ? launch_.window.rows_shift : launch_.compressed.rows_shift;
    next.page =
        static_cast<PageId>(__ldcg(reinterpret_cast<const std::int32_t*>(half.pages + (half.row >> shift))));
    return next;
  }

  __device__ Placed placed(const Paged& half) const {
    const RowPlace place(half.in_window ? launch_.window : launch_.compressed, half.page, half.row, kDataBytes,
                         kScaleBytes);
    Placed next{half.bits, place.data, {0, 0}};
    if (place.data == nullptr) return next;
#ifndef NOPF
    if (piece_ == 0) ptx::bulk_prefetch_l2(place.data, kDataBytes);
#endif
    next.scales = __ldcg(reinterpret_cast<const uint2*>(place.scales));
    return next;
  }

  /// Queries and descriptions of opened tasks, each once the consumers have the scores of the task before; those before
  /// number `must` even if that has to be waited for.
  __device__ void begin_tasks(int num_opened, int must) {
    if (thread_ != 0) return;
    for (; num_begun_ < num_opened; ++num_begun_) {
      const int parity = num_begun_ % 2 ^ 1;
      if (num_begun_ < must) {
        ptx::mbarrier_wait(&smem_.q_empty, parity);
      } else if (!ptx::mbarrier_test_wait(&smem_.q_empty, parity)) {
        return;
      }
      const TaskInfo& info = smem_.opened[num_begun_ % kOpenTasks];
      smem_.tasks[num_begun_ % 2] = info;
      if (info.blocks.begin >= info.blocks.end) {
        ptx::mbarrier_arrive(&smem_.q_full);
        continue;
      }
      ptx::mbarrier_arrive_expect(&smem_.q_full, kDimTiles * kTileBytes);
      for (int tile = 0; tile < kDimTiles; ++tile) {
        ptx::tma_load(smem_.q[tile], q_map_, &smem_.q_full, tile * kTileDims * 2, info.group * kGroupHeads,
                      info.query);
      }
    }
  }

  /// Writes `half`, whose codes are here, and asks for those of the next row in their place.
  __device__ void widen(const Placed& half, const std::byte* next_data, uint4 (&codes)[kCodeBlocks]) {
    const int stage = num_filled_ % kStages, parity = num_filled_ / kStages % 2 ^ 1;
    if ((half.bits & kOpensBlock) != 0) {
      for (auto& barrier : smem_.keys_empty[stage]) ptx::mbarrier_wait(&barrier, parity);
    }
    if ((half.bits & kHasRows) != 0) {
      const int entry = ((half.bits & kUpperHalf) != 0 ? kHalfEntries : 0) + entry_;
      copy_rope(half.data, stage, entry);
#pragma unroll
      for (int i = 0; i < kCodeBlocks; ++i) {
        store_widened(codes[i], scale_of(half.scales, i), smem_.keys[stage][i], entry, piece_);
        codes[i] = load_codes(next_data, i);
      }
      multiply_large(half.scales, stage, entry);
    } else {
#pragma unroll
      for (int i = 0; i < kCodeBlocks; ++i) codes[i] = load_codes(next_data, i);
    }
    if ((half.bits & kClosesBlock) == 0) return;
    ptx::cp_async_wait_all();
    ptx::fence_proxy_async();
    if ((half.bits & kSharedHalf) != 0 && thread_ == 0) {
      ptx::mbarrier_arrive_expect(&smem_.keys_full[stage], kDimTiles * kTileBytes / 2);
    } else {
      ptx::mbarrier_arrive(&smem_.keys_full[stage]);
    }
    if ((half.bits & kSharedHalf) != 0) send(stage);
    ++num_filled_;
  }

  /// This warp's eight rows of each tile to the other thread block of the pair. Its stage is free if the one here is.
  __device__ void send(int stage) {
    __syncwarp();
    const int tile = thread_ % kWarpLanes;
    if (tile >= kDimTiles) return;
    const int first_row = static_cast<int>(rank_) * kHalfEntries + thread_ / kWarpLanes * kWarpRows;
    ptx::bulk_copy_to_block(smem_.keys[stage][tile] + first_row * kTileDims * 2, kRowGroupBytes,
                            &smem_.keys_full[stage], rank_ ^ 1);
  }

  [[nodiscard]] __device__ uint4 load_codes(const std::byte* data, int block) const {
    if (data == nullptr) return {0, 0, 0, 0};
    return __ldcg(reinterpret_cast<const uint4*>(data + block * kLatentBlock) + piece_);
  }

  __device__ static std::uint32_t scale_of(uint2 scales, int block) {
    return __byte_perm(scales.x, scales.y, static_cast<unsigned>(block)) & 0xFF;
  }

  /// The last tile is BF16 already.
  __device__ void copy_rope(const std::byte* data, int stage, int entry) {
    for (int chunk = piece_; chunk < kRope * 2 / 16; chunk += kRowThreads) {
      const std::byte* from = data == nullptr ? launch_.window.base : data + kNope + chunk * 16;
      ptx::cp_async_16(chunk_of(smem_.keys[stage][kDimTiles - 1], entry, chunk), from, data != nullptr);
    }
  }

  __device__ void multiply_large(uint2 scales, int stage, int entry) {
    constexpr std::uint32_t kLargest = kLargestScale * 0x01010101u, kAllButPadding = 0xFFFFFFu;
    if ((__vcmpgtu4(scales.x, kLargest) | __vcmpgtu4(scales.y & kAllButPadding, kLargest)) == 0) return;
    for (int i = 0; i < kCodeBlocks; ++i) {
      multiply_by_rest(scale_of(scales, i), smem_.keys[stage][i], entry, piece_);
    }
  }

  const AttentionLaunch& launch_;
  const CUtensorMap& q_map_;
  const WorkPlan& plan_;
  TileSmem& smem_;
  unsigned rank_;  ///< in the pair
  int thread_, entry_, piece_;
  int num_begun_ = 0;   ///< tasks
  int num_filled_ = 0;  ///< blocks, over all tasks
};

}  // namespace baleen::sm90
