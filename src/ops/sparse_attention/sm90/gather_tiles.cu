// Weights times values for a few items: a thread block for each item and 64 dims. Its values are dequantised
// while the kernel before still computes weights: all of the list at once, where it is not longer than 10
// runs.
//
// In a decode step the next kernel's weights then keep memory busy, so that a read takes microseconds, of
// instructions too: everything is read before that kernel begins, and loops are not unrolled. With 640
// entries that is 10 us behind the last weight; with 58 KB of unrolled instructions and reads on the way it
// was 14.
#include "cuda/kernel_launch.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/sparse_attention/cuda/row_forms.cuh"
#include "ops/sparse_attention/sm90/tile_work.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kThreads = 2 * kWarpgroupThreads;
constexpr int kRoundRuns = 10;  ///< that are in shared memory at a time: the window's and 512 entries'
constexpr int kRoundRows = kRoundRuns * kRunEntries;
constexpr int kPieces = 4;  ///< pieces of a row's 64 dims

/// A run's weights, each where the thread with that number in its warpgroup reads it.
struct RunOperands {
  uint4 weights[kRunSteps][kWarpgroupThreads];
  float4 softmax[2][kWarpgroupThreads];  ///< sums of the heads row and row + 8, each beside its neighbour

  __device__ void copy(const WaitingRuns& waiting, int slot, int thread, int row) {
#pragma unroll
    for (int step = 0; step < kRunSteps; ++step) {
      ptx::cp_async_16(&weights[step][thread], waiting.of_slot(slot, thread) + step * kWarpgroupThreads);
    }
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      ptx::cp_async_16(&softmax[which][thread], waiting.heads(slot) + ((row & ~1) + 8 * which));
    }
  }
  [[nodiscard]] __device__ float2 softmax_of(int which, int thread, int row) const {
    const float4 both = softmax[which][thread];
    return row % 2 == 0 ? float2{both.x, both.y} : float2{both.z, both.w};
  }
};

struct GatherSmem {
  std::byte values[kRoundRuns][kTileBytes];
  RowPlace places[kRoundRows];
  RunOperands operands[kRoundRuns];
};

/// By one warpgroup: where the rows of entries [first, first + kRoundRows) of the list are.
template <RowForm kForm>
__device__ void find_rows(const AttentionLaunch& launch, const EntryList& list, int first, int thread,
                          GatherSmem& smem) {
  constexpr int kRows = kRoundRows / kWarpgroupThreads;  // that a thread waits for together
  int rows[kRows];
  PageId pages[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) rows[i] = list.row(first + thread + i * kWarpgroupThreads);
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    pages[i] = list.page(launch, first + thread + i * kWarpgroupThreads, rows[i]);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int entry = thread + i * kWarpgroupThreads;
    smem.places[entry] = row_place<kForm>(launch, first + entry >= list.num_window, pages[i], rows[i]);
  }
}

/// Which 32 bytes of a row a thread copies for 16 dims of tile `dim_tile`, piece `piece` of kPieces, and what
/// it makes of them. `entry`: the row is not of the window.
template <RowForm kForm>
class TileValues;

template <>
class TileValues<RowForm::kV4> {
 public:
  __device__ TileValues(int dim_tile, int piece) : dim_tile_(dim_tile), piece_(piece) {}

  [[nodiscard]] __device__ bool are_codes() const { return dim_tile_ != kDimTiles - 1; }  // else BF16
  [[nodiscard]] __device__ const std::byte* first(const RowPlace& place, bool /*entry*/) const {
    return place.data + (are_codes() ? dim_tile_ * kLatentGroup + 16 * piece_ : kNope + 32 * piece_);
  }
  [[nodiscard]] __device__ const std::byte* second(const RowPlace& place, bool entry) const {
    return are_codes() ? place.scales - place_in_pair(place) * kScaleBytes : first(place, entry) + 16;
  }
  __device__ void store(const RowPlace& place, bool /*entry*/, const uint4& codes, const std::byte* scales,
                        std::byte* tile, int row) const {
    const auto scale = static_cast<std::uint32_t>(scales[place_in_pair(place) * kScaleBytes + dim_tile_]);
    store_dequantised(codes, scale, tile, row, piece_);
    multiply_by_rest(scale, tile, row, piece_);
  }

 private:
  /// Of the two rows whose scales are on the same 16 bytes, which one this is.
  [[nodiscard]] __device__ static int place_in_pair(const RowPlace& place) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(place.scales) / kScaleBytes % 2);
  }

  int dim_tile_, piece_;
};

/// An entry's 16 codes are 8 bytes, copied with those of the neighbouring piece; four tiles' scales of an
/// entry are on 16 bytes, and all of a position.
template <>
class TileValues<RowForm::kV41> {
 public:
  __device__ TileValues(int dim_tile, int piece) : dim_tile_(dim_tile), piece_(piece) {}

  [[nodiscard]] __device__ static constexpr bool are_codes() { return true; }
  [[nodiscard]] __device__ const std::byte* first(const RowPlace& place, bool entry) const {
    return place.data +
           (entry ? dim_tile_ * (kTileDims / 2) + piece_ / 2 * 16 : dim_tile_ * kTileDims + piece_ * 16);
  }
  [[nodiscard]] __device__ const std::byte* second(const RowPlace& place, bool entry) const {
    return place.scales + (entry ? dim_tile_ / 4 * 16 : 0);
  }
  __device__ void store(const RowPlace& /*place*/, bool entry, const uint4& codes, const std::byte* scales,
                        std::byte* tile, int row) const {
    if (entry) {
      const auto scale = static_cast<std::uint32_t>(scales[dim_tile_ % 4 * 4 + piece_]);
      const bool second = piece_ % 2 != 0;
      *reinterpret_cast<uint4*>(chunk_of(tile, row, 2 * piece_)) =
          dequantised_entry(second ? codes.z : codes.x, scale);
      *reinterpret_cast<uint4*>(chunk_of(tile, row, 2 * piece_ + 1)) =
          dequantised_entry(second ? codes.w : codes.y, scale);
    } else {
      const auto scale = static_cast<std::uint32_t>(scales[dim_tile_ * 2 + piece_ / 2]);
      store_dequantised(codes, scale, tile, row, piece_);
      multiply_by_rest(scale, tile, row, piece_);
    }
  }

 private:
  static_assert(kPositionGroup == kTileDims / 2 && kEntryGroup == kTileDims / 4 && kPieces == 4);

  int dim_tile_, piece_;
};

/// The 64 dims of `dim_tile` of `count` rows as BF16, the first `num_window` of them of the window. Codes and
/// scales are copied to where their values will be, by the thread that then dequantises them.
template <RowForm kForm>
__device__ void load_values(const AttentionLaunch& launch, int dim_tile, int num_window, int count,
                            GatherSmem& smem) {
  const int piece = static_cast<int>(threadIdx.x) % kPieces, first = static_cast<int>(threadIdx.x) / kPieces;
  const TileValues<kForm> values(dim_tile, piece);
  const auto chunk = [&](int row, int which) {
    return chunk_of(smem.values[row / kRunEntries], row % kRunEntries, 2 * piece + which);
  };
#pragma unroll 1
  for (int row = first; row < count; row += kThreads / kPieces) {
    const RowPlace place = smem.places[row];
    const bool exists = place.data != nullptr, entry = row >= num_window;
    ptx::cp_async_16(chunk(row, 0), exists ? values.first(place, entry) : launch.window.base, exists);
    ptx::cp_async_16(chunk(row, 1), exists ? values.second(place, entry) : launch.window.base, exists);
  }
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  if (!values.are_codes()) return;
#pragma unroll 1
  for (int row = first; row < count; row += kThreads / kPieces) {
    const uint4 codes = *reinterpret_cast<const uint4*>(chunk(row, 0));
    values.store(smem.places[row], row >= num_window, codes, chunk(row, 1), smem.values[row / kRunEntries],
                 row % kRunEntries);
  }
}

__device__ void add_run(const RunOperands& run, int thread, int row, const std::byte* values,
                        float (&sums)[kTileSums], SoftmaxState& state) {
  RunWeights weights;
#pragma unroll
  for (int step = 0; step < kRunSteps; ++step) {
    unpack_weights(run.weights[step][thread], weights[step]);
  }
  state.merge({run.softmax_of(0, thread, row), run.softmax_of(1, thread, row)}, weights, sums);
  begin_adding(weights, values, sums);
  finish_products(sums);
}

template <RowForm kForm>
__global__ void __launch_bounds__(kThreads, 1)
    gather_tiles_kernel(const __grid_constant__ AttentionLaunch launch, const __grid_constant__ WorkPlan plan,
                        NextBehindWait order) {
  extern __shared__ std::byte dynamic_shared[];
  GatherSmem& smem = *reinterpret_cast<GatherSmem*>(dynamic_shared + bytes_to_tile(dynamic_shared));
  const int dim_tile = static_cast<int>(blockIdx.x), item = static_cast<int>(blockIdx.y);
  const int query = item / plan.groups, group = item % plan.groups;
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  const int row = thread / kWarpLanes * 16 + thread % kWarpLanes / 4;
  // Lists and cache rows are of earlier operations, which are done.
  const EntryList list = EntryList::of(launch, query);
  const int num_runs = __shfl_sync(kAllLanes, (list.size + kRunEntries - 1) / kRunEntries, 0);
  const bool shared = plan.shares(num_runs);
  const float2 sinks = sinks_of(launch, group, row);
  TileAngles angles;
  if (dim_tile == kDimTiles - 1) angles = TileAngles::load(launch, query, thread);
  float sums[kTileSums] = {};
  SoftmaxState state;
  for (int begin = 0; shared && begin < num_runs; begin += kRoundRuns) {
    const int count = min(kRoundRuns, num_runs - begin);
    const auto copy_operands = [&] {
#pragma unroll 1
      for (int run = warpgroup; run < count; run += kThreads / kWarpgroupThreads) {
        smem.operands[run].copy(plan.waiting, item * plan.slots + begin + run, thread, row);
      }
    };
    // While the other warpgroup still multiplies the round before.
    if (warpgroup != 0) find_rows<kForm>(launch, list, begin * kRunEntries, thread, smem);
    __syncthreads();
    if (begin > 0) copy_operands();
    load_values<kForm>(launch, dim_tile, list.num_window - begin * kRunEntries, count * kRunEntries, smem);
    ptx::fence_proxy_async();
    if (begin == 0) {
      order.wait();
      copy_operands();
      ptx::cp_async_commit();
      ptx::cp_async_wait<0>();
    }
    __syncthreads();
    const bool all_read = begin + count == num_runs;
    if (all_read) order.wait().launch_next();
    if (warpgroup != 0) continue;
#pragma unroll 1
    for (int run = 0; run < count; ++run) {
      add_run(smem.operands[run], thread, row, smem.values[run], sums, state);
    }
  }
  order.wait().launch_next();
  if (!shared || warpgroup != 0) return;
  float inverse[2];
  inverse_denominators(sinks, state, num_runs == 0, inverse);
  store_tile(launch, query, group, dim_tile, thread, sums, inverse, [&] { return angles; });
}

}  // namespace

void gather_tiles(const AttentionLaunch& launch, const WorkPlan& plan, CudaContext& context) {
  context.stream.expect_earlier_operations_done();
  launch_kernel(
      "gather_tiles",
      launch.form == RowForm::kV41 ? gather_tiles_kernel<RowForm::kV41> : gather_tiles_kernel<RowForm::kV4>,
      {.grid = dim3(kDimTiles, static_cast<unsigned>(plan.items)),
       .threads = kThreads,
       .shared_bytes = sizeof(GatherSmem) + kRowGroupBytes},
      context.stream, launch, plan);
}

}  // namespace baleen::sm90
