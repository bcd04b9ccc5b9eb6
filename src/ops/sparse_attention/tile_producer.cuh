/// The producer warpgroup of attention on tiles: finds the rows of a query's list and writes them as BF16 keys.
///
/// Four threads share a row, 32 rows at a time are half a block. Thread t of a row takes codes 16 t .. of each 64 that
/// share a scale, so that two of its 16-byte stores with those of the neighbouring row touch all banks. A row's codes stay
/// in registers on their way: when one piece is widened, the same piece of the row 32 further on is asked for. Its page is
/// asked for one half earlier, and its number in the selection another half earlier.
#pragma once

#include <cuda.h>

#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "cuda/widen_e4m3.cuh"
#include "numeric/block_scale.h"
#include "ops/sparse_attention/tile_smem.cuh"

namespace baleen::sm90 {

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
    int num_done = 0;
    for (int task = static_cast<int>(blockIdx.x); task < plan_.num_tasks();
         task += static_cast<int>(gridDim.x), ++num_done) {
      const int item = task / plan_.parts, part = task % plan_.parts;
      const int query = item / plan_.groups, group = item % plan_.groups;
      if (thread_ == 0) load_queries(query, group, num_done);
      EntryList list = EntryList::of(launch_, query);
      const int num_blocks = (list.size + kBlockEntries - 1) / kBlockEntries;
      BlockRange blocks = plan_.range(num_blocks, part);
      blocks = {uniform(blocks.begin), uniform(blocks.end)};
      if (thread_ == 0) {
        smem_.tasks[num_done % 2] = {query,     group,  item,       part,
                                     list.size, blocks, num_blocks, plan_.first_run(num_blocks)};
        ptx::mbarrier_arrive(&smem_.q_full);
      }
      list.size = min(list.size, blocks.end * kBlockEntries);  // nothing beyond is asked for
      fill(list, blocks);
    }
  }

 private:
  static constexpr int kRowThreads = 4;
  static constexpr int kHalfRows = kWarpgroupThreads / kRowThreads;
  static constexpr int kCodeBlocks = kNope / kLatentBlock;

  __device__ void load_queries(int query, int group, int num_done) {
    ptx::mbarrier_wait(&smem_.q_empty, num_done % 2 ^ 1);
    ptx::mbarrier_arrive_expect(&smem_.q_full, kDimTiles * kTileBytes);
    for (int tile = 0; tile < kDimTiles; ++tile) {
      ptx::tma_load(smem_.q[tile], q_map_, &smem_.q_full, tile * kTileDims * 2, group * kGroupHeads, query);
    }
  }

  [[nodiscard]] __device__ RowPlace place(const EntryList& list, int index, int row, PageId page) const {
    return {index < list.num_window ? launch_.window : launch_.compressed, page, row, kDataBytes,
            kScaleBytes};
  }

  __device__ void fill(const EntryList& list, BlockRange blocks) {
    const int piece = thread_ % kRowThreads;
    int index = blocks.begin * kBlockEntries + thread_ / kRowThreads;

    int row = list.row(index);
    RowPlace here = place(list, index, row, list.page(launch_, index, row));
    uint4 codes[kCodeBlocks];
#pragma unroll
    for (int i = 0; i < kCodeBlocks; ++i) codes[i] = load_codes(here, i, piece);
    uint2 scales = load_scales(here);
    row = list.row(index + kHalfRows);
    PageId page = list.page(launch_, index + kHalfRows, row);
    int row_after = list.row(index + 2 * kHalfRows);

    for (int half = 2 * blocks.begin; half < 2 * blocks.end; ++half, index += kHalfRows) {
      const int stage = num_filled_ % kStages;
      if (half % 2 == 0) {
        const int parity = num_filled_ / kStages % 2 ^ 1;
        for (int consumer = 0; consumer < kConsumers; ++consumer) {
          ptx::mbarrier_wait(&smem_.keys_empty[stage][consumer], parity);
        }
      }
      const int entry = half % 2 * kHalfRows + thread_ / kRowThreads;
      copy_rope(here, stage, entry, piece);

      const RowPlace next = place(list, index + kHalfRows, row, page);
      row = row_after;
      page = list.page(launch_, index + 2 * kHalfRows, row);
      row_after = list.row(index + 3 * kHalfRows);
      const uint2 next_scales = load_scales(next);
#pragma unroll
      for (int i = 0; i < kCodeBlocks; ++i) {
        const std::uint32_t scale = __byte_perm(scales.x, scales.y, i) & 0xFF;
        store_widened(codes[i], scale, smem_.keys[stage][i], entry, piece);
        codes[i] = load_codes(next, i, piece);
      }
      scales = next_scales;
      here = next;

      if (half % 2 == 1) {
        ptx::cp_async_wait<0>();
        ptx::fence_proxy_async();
        ptx::mbarrier_arrive(&smem_.keys_full[stage]);
        ++num_filled_;
      }
    }
  }

  __device__ static uint4 load_codes(const RowPlace& place, int block, int piece) {
    if (place.data == nullptr) return {0, 0, 0, 0};
    return __ldcg(reinterpret_cast<const uint4*>(place.data + block * kLatentBlock) + piece);
  }
  __device__ static uint2 load_scales(const RowPlace& place) {
    if (place.data == nullptr) return {0, 0};
    return __ldcg(reinterpret_cast<const uint2*>(place.scales));
  }

  /// 16-byte chunk `chunk` of row `entry` of a tile.
  __device__ static std::byte* chunk_of(std::byte* tile, int entry, int chunk) {
    return tile + entry * 128 + ((chunk ^ entry % 8) << 4);
  }

  /// The last tile is BF16 already.
  __device__ void copy_rope(const RowPlace& place, int stage, int entry, int piece) {
    for (int chunk = piece; chunk < kRope * 2 / 16; chunk += kRowThreads) {
      const std::byte* from = place.data == nullptr ? launch_.window.base : place.data + kNope + chunk * 16;
      ptx::cp_async_16(chunk_of(smem_.keys[stage][kDimTiles - 1], entry, chunk), from, place.data != nullptr);
    }
  }

  __device__ static void store_widened(const uint4& codes, std::uint32_t scale, std::byte* tile, int entry,
                                       int piece) {
    const std::uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
    std::uint32_t values[8];
    const std::uint32_t multiplier = multiplier_of(min(scale, kLargestScale));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[2 * i] = widen_e4m3_pair(words[i], multiplier);
      values[2 * i + 1] = widen_e4m3_pair(words[i] >> 16, multiplier);
    }
    if (scale > kLargestScale) {  // no multiplier is that large: the rest in a second step
      const std::uint32_t rest = power_of_two(scale - kLargestScale + kE8m0Bias, scale == kE8m0NaN);
#pragma unroll
      for (std::uint32_t& value : values) value = ptx::multiply_bf16_pair(value, rest);
    }
    *reinterpret_cast<uint4*>(chunk_of(tile, entry, 2 * piece)) = {values[0], values[1], values[2],
                                                                   values[3]};
    *reinterpret_cast<uint4*>(chunk_of(tile, entry, 2 * piece + 1)) = {values[4], values[5], values[6],
                                                                       values[7]};
  }

  static constexpr std::uint32_t kE8m0Bias = 127, kE8m0NaN = 255;
  static constexpr std::uint32_t kLargestScale = kE8m0Bias + 7;  ///< of `e4m3_multiplier`

  /// 2^(code - 127), twice.
  __device__ static std::uint32_t power_of_two(std::uint32_t code, bool nan = false) {
    constexpr int kBf16ExponentShift = 7;
    constexpr std::uint32_t kNaN = 0x7FC0;
    return (nan ? kNaN : code << kBf16ExponentShift) * 0x10001u;
  }
  /// `e4m3_multiplier` of an e8m0 scale.
  __device__ static std::uint32_t multiplier_of(std::uint32_t scale) {
    constexpr std::uint32_t kBiasDifference = 120;
    return power_of_two(scale + kBiasDifference);
  }

  const AttentionLaunch& launch_;
  const CUtensorMap& q_map_;
  const WorkPlan& plan_;
  TileSmem& smem_;
  int thread_;
  int num_filled_ = 0;  ///< blocks, over all tasks
};

}  // namespace baleen::sm90
