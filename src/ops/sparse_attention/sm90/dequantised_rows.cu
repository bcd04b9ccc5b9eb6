// Every cache row that a span of sequences may see, to BF16 in scratch: a warp takes four rows at a time,
// each lane 16 bytes of either half of a row.
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/sparse_attention/cuda/row_forms.cuh"
#include "ops/sparse_attention/sm90/attention_tile.cuh"
#include "ops/sparse_attention/sm90/dequantised_rows.h"

namespace baleen::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 4;
constexpr int kRowsAtATime = 4;
constexpr int kChunkValues = 8;  ///< 16 bytes of BF16
constexpr int kRowChunks = kWidth / kChunkValues, kCodeChunks = kNope / kChunkValues;
constexpr int kChunksPerScale = kLatentGroup / kChunkValues;
static_assert(kRowChunks == 2 * kWarpLanes);

/// A lane's two chunks of a row, `lane` and `lane` + 32, as they lie in the cache.
struct V4Pieces {
  static constexpr RowForm kForm = RowForm::kV4;
  static constexpr bool kEntry = false;  // the same as a position

  uint2 codes[2];
  std::uint32_t scales[2];
  uint4 rotary;  ///< instead of the second codes, in the last lanes

  __device__ static bool second_is_rotary(int lane) { return lane + kWarpLanes >= kCodeChunks; }

  __device__ void load(const RowPlace& place, int lane) {
    const auto load_codes = [&](int which) {
      const int chunk = lane + which * kWarpLanes;
      codes[which] = __ldcg(reinterpret_cast<const uint2*>(place.data) + chunk);
      scales[which] = static_cast<std::uint32_t>(place.scales[chunk / kChunksPerScale]);
    };
    load_codes(0);
    if (second_is_rotary(lane)) {
      rotary = __ldcg(reinterpret_cast<const uint4*>(place.data + kNope) + (lane + kWarpLanes - kCodeChunks));
    } else {
      load_codes(1);
    }
  }
  __device__ void store(uint4* row, int lane) const {
    row[lane] = dequantised(codes[0], scales[0]);
    row[lane + kWarpLanes] = second_is_rotary(lane) ? rotary : dequantised(codes[1], scales[1]);
  }
};

template <bool kIsEntry>
struct V41Pieces {
  static constexpr RowForm kForm = RowForm::kV41;
  static constexpr bool kEntry = kIsEntry;

  uint2 codes[2];  ///< an entry's are in the first word
  std::uint32_t scales[2];

  __device__ void load(const RowPlace& place, int lane) {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const int chunk = lane + which * kWarpLanes;
      if constexpr (kEntry) {
        codes[which].x = __ldcg(reinterpret_cast<const std::uint32_t*>(place.data) + chunk);
      } else {
        codes[which] = __ldcg(reinterpret_cast<const uint2*>(place.data) + chunk);
      }
      constexpr int kGroup = kEntry ? kEntryGroup : kPositionGroup;
      scales[which] =
          __ldcg(reinterpret_cast<const unsigned char*>(place.scales) + chunk / (kGroup / kChunkValues));
    }
  }
  __device__ void store(uint4* row, int lane) const {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      row[lane + which * kWarpLanes] = kEntry ? dequantised_entry(codes[which].x, scales[which])
                                              : dequantised(codes[which], scales[which]);
    }
  }
};

/// Rows first .. first + count of a sequence in `pool`, to `to`. `warp` of `num_warps`.
template <class Pieces>
__device__ void dequantise(const RowPool& pool, const PageId* pages, int first, int count, Bf16Bits* to,
                           int warp, int num_warps) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  for (int begin = warp * kRowsAtATime; begin < count; begin += num_warps * kRowsAtATime) {
    PageId page[kRowsAtATime];
    Pieces pieces[kRowsAtATime];
#pragma unroll
    for (int i = 0; i < kRowsAtATime; ++i) {
      const int row = first + min(begin + i, count - 1);
      page[i] =
          static_cast<PageId>(__ldg(reinterpret_cast<const std::int32_t*>(pages) + (row >> pool.rows_shift)));
    }
#pragma unroll
    for (int i = 0; i < kRowsAtATime; ++i) {
      const int row = first + min(begin + i, count - 1);
      pieces[i].load(row_place<Pieces::kForm>(pool, Pieces::kEntry, page[i], row), lane);
    }
#pragma unroll
    for (int i = 0; i < kRowsAtATime; ++i) {
      if (begin + i >= count) break;
      pieces[i].store(reinterpret_cast<uint4*>(to + static_cast<std::int64_t>(begin + i) * kWidth), lane);
    }
  }
}

template <class Position, class Entry>
__global__ void __launch_bounds__(kThreads)
    dequantise_rows_kernel(const __grid_constant__ AttentionLaunch launch,
                           const __grid_constant__ DequantisedSpan span, NextBehindWait order) {
  order.wait().launch_next();
  const int warp = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) / kWarpLanes;
  const int num_warps = static_cast<int>(gridDim.x) * kThreads / kWarpLanes;
  for (int i = 0; i < span.num_sequences; ++i) {
    const DequantisedSequence& rows = span.sequences[i];
    const DeviceSequence& sequence = launch.batch.sequences[span.first_sequence + i];
    dequantise<Position>(launch.window, sequence.window_pages, rows.first_position, rows.num_window_rows,
                         span.rows + static_cast<std::int64_t>(rows.first_window_row) * kWidth, warp,
                         num_warps);
    dequantise<Entry>(launch.compressed, sequence.pages, 0, rows.num_entries,
                      span.rows + static_cast<std::int64_t>(rows.first_entry_row) * kWidth, warp, num_warps);
  }
  for (int query = warp; query < launch.num_rows; query += num_warps) {
    const DequantisedSequence& rows = span.sequences[launch.batch.sequence_of[query] - span.first_sequence];
    const EntryList list = EntryList::of(launch, query);
    span.queries[query] = {list.num_window, list.size,
                           rows.first_window_row + list.first_window_position - rows.first_position,
                           rows.first_entry_row};
  }
}

}  // namespace

void dequantise_rows(const AttentionLaunch& launch, const DequantisedSpan& span, CudaContext& context) {
  launch_kernel("dequantise_rows",
                launch.form == RowForm::kV41 ? dequantise_rows_kernel<V41Pieces<false>, V41Pieces<true>>
                                             : dequantise_rows_kernel<V4Pieces, V4Pieces>,
                {.grid = dim3(static_cast<unsigned>(context.num_sms * kBlocksPerSm)), .threads = kThreads},
                context.stream, launch, span);
}

}  // namespace baleen::sm90
