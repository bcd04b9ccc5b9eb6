// Weights that wait, times values, for a few items: a block for each item and 64 dims. Its eight warps bring
// the values of up to 640 entries to shared memory, all reads under way at once, and then multiply, 16 heads
// and 32 dims each, tile after tile.
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/sparse_attention/sm80/tile_work.cuh"

namespace baleen::sm80 {
namespace {

constexpr int kThreads = 256;
constexpr int kPieces = 4;  ///< a row's 64 dims are so many threads' work
constexpr int kRowsAtATime = kThreads / kPieces, kThreadRows = 10;
constexpr int kRoundRows = kRowsAtATime * kThreadRows;
constexpr int kRoundTiles = kRoundRows / kTileEntries;
constexpr int kPitch = kTileDims * 2 + 16;  ///< eight rows' 16 bytes fall into different banks
constexpr int kTilesAhead = 3;              ///< whose weights a lane reads at once
constexpr int kHalves = 2;                  ///< a warp has one of them, 32 dims, and 16 heads

struct GatherSmem {
  alignas(16) std::byte values[kRoundRows][kPitch];
};

/// The 64 dims of `dim_tile` of the entries from `first` on, as BF16; zeros behind the last one. Reads that
/// depend on each other are made for all of a thread's rows together.
__device__ void bring_values(const AttentionLaunch& launch, const EntryList& list, int first, int dim_tile,
                             GatherSmem& smem) {
  const int piece = static_cast<int>(threadIdx.x) % kPieces;
  const int first_entry = static_cast<int>(threadIdx.x) / kPieces;
  const bool rotary = dim_tile == kDimTiles - 1;  // BF16 already
  int rows[kThreadRows];
  PageId pages[kThreadRows];
  uint4 words[kThreadRows][2];  // codes, the second unused; or values
  std::uint32_t scales[kThreadRows];
#pragma unroll
  for (int i = 0; i < kThreadRows; ++i) rows[i] = list.row(first + first_entry + i * kRowsAtATime);
#pragma unroll
  for (int i = 0; i < kThreadRows; ++i)
    pages[i] = list.page(launch, first + first_entry + i * kRowsAtATime, rows[i]);
#pragma unroll
  for (int i = 0; i < kThreadRows; ++i) {
    const bool in_window = first + first_entry + i * kRowsAtATime < list.num_window;
    const RowPlace place(in_window ? launch.window : launch.compressed, pages[i], rows[i], kDataBytes,
                         kScaleBytes);
    words[i][0] = words[i][1] = {};
    scales[i] = 0;
    if (place.data == nullptr) continue;
    if (rotary) {
      const auto* from = reinterpret_cast<const uint4*>(place.data + kNope) + 2 * piece;
      words[i][0] = __ldcg(from);
      words[i][1] = __ldcg(from + 1);
    } else {
      words[i][0] = __ldcg(reinterpret_cast<const uint4*>(place.data + dim_tile * kLatentGroup) + piece);
      scales[i] = __ldcg(reinterpret_cast<const unsigned char*>(place.scales) + dim_tile);
    }
  }
#pragma unroll
  for (int i = 0; i < kThreadRows; ++i) {
    auto* to = reinterpret_cast<uint4*>(&smem.values[first_entry + i * kRowsAtATime][piece * 32]);
    const uint4 codes = words[i][0];
    to[0] = rotary ? codes : dequantised({codes.x, codes.y}, scales[i]);
    to[1] = rotary ? words[i][1] : dequantised({codes.z, codes.w}, scales[i]);
  }
}

/// What a lane needs of a tile's weights, for its warp's 16 heads.
struct TileOperands {
  uint4 steps[kTileSteps];
  float2 softmax[2];

  __device__ void load(const WaitingWeights& waiting, int slot, int head_tile) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
#pragma unroll
    for (int step = 0; step < kTileSteps; ++step)
      steps[step] = __ldcg(waiting.operand(slot, step, head_tile) + lane);
    const float2* heads = waiting.heads(slot) + 16 * head_tile + lane / 4;
    softmax[0] = __ldcg(heads);
    softmax[1] = __ldcg(heads + 8);
  }
};

using HalfSums = float[kTileSums / kHalves];

__device__ void add_tile(const TileOperands& operands, const std::byte* rows, SoftmaxState& state,
                         HalfSums& sums) {
  std::uint32_t weights[kTileSteps][4];
#pragma unroll
  for (int step = 0; step < kTileSteps; ++step) {
    const uint4& words = operands.steps[step];
    weights[step][0] = words.x, weights[step][1] = words.y;
    weights[step][2] = words.z, weights[step][3] = words.w;
  }
  state.merge(operands.softmax, weights, sums);
#pragma unroll
  for (int step = 0; step < kTileSteps; ++step) {
    ValueOperands<kTileDims / 8 / kHalves> values;
    load_values(rows + step * kDepth * kPitch, kPitch, values);
    add_values(weights[step], values, sums);
  }
}

/// Grid: (dims / 64, items).
__global__ void __launch_bounds__(kThreads, 2)
    gather_tiles_kernel(const __grid_constant__ AttentionLaunch launch, const __grid_constant__ WorkPlan plan,
                        NextBehindWait order) {
  extern __shared__ __align__(16) std::byte dynamic_shared[];
  GatherSmem& smem = *reinterpret_cast<GatherSmem*>(dynamic_shared);
  order.wait().launch_next();
  const int dim_tile = static_cast<int>(blockIdx.x), item = static_cast<int>(blockIdx.y);
  const int query = item / plan.groups, group = item % plan.groups;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int head_tile = warp % kHeadTiles, half = warp / kHeadTiles;
  const EntryList list = EntryList::of(launch, query);
  const int num_tiles = num_tiles_of(list);
  if (!plan.shares(num_tiles)) return;
  HalfSums sums = {};
  SoftmaxState state;
  for (int begin = 0; begin < num_tiles; begin += kRoundTiles) {
    const int count = min(kRoundTiles, num_tiles - begin), slot = item * plan.slots + begin;
    if (begin > 0) __syncthreads();
    bring_values(launch, list, begin * kTileEntries, dim_tile, smem);
    TileOperands operands[kTilesAhead];
    const auto load = [&](int first) {
#pragma unroll
      for (int i = 0; i < kTilesAhead; ++i)
        operands[i].load(plan.waiting, slot + min(first + i, count - 1), head_tile);
    };
    load(0);
    __syncthreads();
    for (int first = 0; first < count; first += kTilesAhead) {
      TileOperands now[kTilesAhead];
#pragma unroll
      for (int i = 0; i < kTilesAhead; ++i) now[i] = operands[i];
      load(first + kTilesAhead);
#pragma unroll
      for (int i = 0; i < kTilesAhead; ++i) {
        if (first + i < count)
          add_tile(now[i], &smem.values[(first + i) * kTileEntries][half * (kTileDims / kHalves * 2)], state,
                   sums);
      }
    }
  }

  // The second half of the dims goes to the warps that have the first, which then store whole rows.
  __syncthreads();
  auto* const second_half = reinterpret_cast<float*>(&smem) + head_tile * kWarpLanes + lane;
  constexpr int kHalfSums = kTileSums / kHalves, kStride = kHeadTiles * kWarpLanes;
  if (half == 1) {
#pragma unroll
    for (int i = 0; i < kHalfSums; ++i) second_half[i * kStride] = sums[i];
  }
  __syncthreads();
  if (half == 1) return;
  float all[kTileSums];
#pragma unroll
  for (int i = 0; i < kHalfSums; ++i) {
    all[i] = sums[i];
    all[kHalfSums + i] = second_half[i * kStride];
  }
  float inverse[2];
  inverse_denominators(sinks_of(launch, group, 16 * head_tile + lane / 4), state, num_tiles == 0, inverse);
  store_tile(launch, query, group, dim_tile, static_cast<int>(threadIdx.x), all, inverse);
}

}  // namespace

void gather_tiles(const AttentionLaunch& launch, const WorkPlan& plan, CudaContext& context) {
  launch_kernel("gather_tiles", gather_tiles_kernel,
                {.grid = dim3(kDimTiles, static_cast<unsigned>(plan.items)),
                 .threads = kThreads,
                 .shared_bytes = sizeof(GatherSmem)},
                context.stream, launch, plan);
}

}  // namespace baleen::sm80
