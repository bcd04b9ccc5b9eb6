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
#include "ops/sparse_attention/cuda/entry_list.cuh"
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

  __device__ void copy(const WaitingWeights& waiting, int slot, int thread, int row) {
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
    const bool in_window = first + entry < list.num_window;
    smem.places[entry] = {in_window ? launch.window : launch.compressed, pages[i], rows[i], kDataBytes,
                          kScaleBytes};
  }
}

/// Of the two rows whose scales are on the same 16 bytes, which one has `scales`.
__device__ int place_in_pair(const std::byte* scales) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(scales) / kScaleBytes % 2);
}

/// The 64 dims of `dim_tile` of `count` rows as BF16. Codes and scales are copied to where their values
/// will be, by the thread that then dequantises them.
__device__ void load_values(const AttentionLaunch& launch, int dim_tile, int count, GatherSmem& smem) {
  const bool rotary = dim_tile == kDimTiles - 1;  // BF16 already
  const int piece = static_cast<int>(threadIdx.x) % kPieces, first = static_cast<int>(threadIdx.x) / kPieces;
  const auto chunk = [&](int entry, int which) {
    return chunk_of(smem.values[entry / kRunEntries], entry % kRunEntries, 2 * piece + which);
  };
#pragma unroll 1
  for (int entry = first; entry < count; entry += kThreads / kPieces) {
    const RowPlace place = smem.places[entry];
    const bool exists = place.data != nullptr;
    const std::byte* codes =
        place.data + (rotary ? kNope + 32 * piece : dim_tile * kLatentGroup + 16 * piece);
    const std::byte* other = rotary ? codes + 16 : place.scales - place_in_pair(place.scales) * kScaleBytes;
    ptx::cp_async_16(chunk(entry, 0), exists ? codes : launch.window.base, exists);
    ptx::cp_async_16(chunk(entry, 1), exists ? other : launch.window.base, exists);
  }
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  if (rotary) return;
#pragma unroll 1
  for (int entry = first; entry < count; entry += kThreads / kPieces) {
    const uint4 codes = *reinterpret_cast<const uint4*>(chunk(entry, 0));
    const std::byte* scales = chunk(entry, 1) + place_in_pair(smem.places[entry].scales) * kScaleBytes;
    const auto scale = static_cast<std::uint32_t>(scales[dim_tile]);
    std::byte* tile = smem.values[entry / kRunEntries];
    store_dequantised(codes, scale, tile, entry % kRunEntries, piece);
    multiply_by_rest(scale, tile, entry % kRunEntries, piece);
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
    if (warpgroup != 0) find_rows(launch, list, begin * kRunEntries, thread, smem);
    __syncthreads();
    if (begin > 0) copy_operands();
    load_values(launch, dim_tile, count * kRunEntries, smem);
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
  launch_kernel("gather_tiles", gather_tiles_kernel,
                {.grid = dim3(kDimTiles, static_cast<unsigned>(plan.items)),
                 .threads = kThreads,
                 .shared_bytes = sizeof(GatherSmem) + kRowGroupBytes},
                context.stream, launch, plan);
}

}  // namespace baleen::sm90
