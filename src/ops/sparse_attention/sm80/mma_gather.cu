// Weights that wait, times values, for a few items: a block for each item and 64 dims. Its eight warps bring
// the values of up to 640 entries to shared memory, all reads under way at once, and then multiply, 16 heads
// and 32 dims each, tile after tile.
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/sparse_attention/cuda/row_forms.cuh"
#include "ops/sparse_attention/sm80/mma_tile_work.cuh"

namespace baleen::sm80::mma_tiles {
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

/// What a thread has of a row: sixteen of its values, codes or BF16.
struct RowPiece {
  uint4 words[2];  ///< the second unused where they are codes
  std::uint32_t scale;
};

/// Values of dim tile `dim_tile`, of which a thread has `piece`, of rows of a form.
template <RowForm kForm>
struct TileRows;

template <>
struct TileRows<RowForm::kV4> {
  __device__ static RowPiece load(const RowPlace& place, bool /*entry*/, int dim_tile, int piece) {
    RowPiece row{};
    if (rotary(dim_tile)) {
      const auto* from = reinterpret_cast<const uint4*>(place.data + kNope) + 2 * piece;
      row.words[0] = __ldcg(from);
      row.words[1] = __ldcg(from + 1);
    } else {
      row.words[0] = __ldcg(reinterpret_cast<const uint4*>(place.data + dim_tile * kLatentGroup) + piece);
      row.scale = __ldcg(reinterpret_cast<const unsigned char*>(place.scales) + dim_tile);
    }
    return row;
  }
  __device__ static void dequantise(const RowPiece& row, bool /*entry*/, int dim_tile, uint4 (&values)[2]) {
    const uint4 codes = row.words[0];
    values[0] = rotary(dim_tile) ? codes : dequantised({codes.x, codes.y}, row.scale);
    values[1] = rotary(dim_tile) ? row.words[1] : dequantised({codes.z, codes.w}, row.scale);
  }

 private:
  __device__ static bool rotary(int dim_tile) { return dim_tile == kDimTiles - 1; }  // BF16 already
};

template <>
struct TileRows<RowForm::kV41> {
  __device__ static RowPiece load(const RowPlace& place, bool entry, int dim_tile, int piece) {
    const int sixteen = dim_tile * kPieces + piece;
    const auto* scales = reinterpret_cast<const unsigned char*>(place.scales);
    RowPiece row{};
    if (entry) {
      const uint2 codes = __ldcg(reinterpret_cast<const uint2*>(place.data) + sixteen);
      row.words[0].x = codes.x, row.words[0].y = codes.y;
      row.scale = __ldcg(scales + sixteen);
    } else {
      row.words[0] = __ldcg(reinterpret_cast<const uint4*>(place.data) + sixteen);
      row.scale = __ldcg(scales + sixteen / 2);
    }
    return row;
  }
  __device__ static void dequantise(const RowPiece& row, bool entry, int /*dim_tile*/, uint4 (&values)[2]) {
    const uint4 codes = row.words[0];
    values[0] = entry ? dequantised_entry(codes.x, row.scale) : dequantised({codes.x, codes.y}, row.scale);
    values[1] = entry ? dequantised_entry(codes.y, row.scale) : dequantised({codes.z, codes.w}, row.scale);
  }
};

/// The 64 dims of `dim_tile` of the entries from `first` on, as BF16; zeros behind the last one. Reads that
/// depend on each other are made for all of a thread's rows together.
template <RowForm kForm>
__device__ void bring_values(const AttentionLaunch& launch, const EntryList& list, int first, int dim_tile,
                             GatherSmem& smem) {
  using Rows = TileRows<kForm>;
  const int piece = static_cast<int>(threadIdx.x) % kPieces;
  const int first_entry = static_cast<int>(threadIdx.x) / kPieces;
  const auto is_entry = [&](int i) { return first + first_entry + i * kRowsAtATime >= list.num_window; };
  int rows[kThreadRows];
  PageId pages[kThreadRows];
  RowPiece pieces[kThreadRows];
#pragma unroll
  for (int i = 0; i < kThreadRows; ++i) rows[i] = list.row(first + first_entry + i * kRowsAtATime);
#pragma unroll
  for (int i = 0; i < kThreadRows; ++i)
    pages[i] = list.page(launch, first + first_entry + i * kRowsAtATime, rows[i]);
#pragma unroll
  for (int i = 0; i < kThreadRows; ++i) {
    const RowPlace place = row_place<kForm>(launch, is_entry(i), pages[i], rows[i]);
    pieces[i] = {};
    if (place.data != nullptr) pieces[i] = Rows::load(place, is_entry(i), dim_tile, piece);
  }
#pragma unroll
  for (int i = 0; i < kThreadRows; ++i) {
    auto* to = reinterpret_cast<uint4*>(&smem.values[first_entry + i * kRowsAtATime][piece * 32]);
    uint4 values[2];
    Rows::dequantise(pieces[i], is_entry(i), dim_tile, values);
    to[0] = values[0];
    to[1] = values[1];
  }
}

/// What a lane needs of a tile's weights, for its warp's 16 heads.
struct TileOperands {
  uint4 steps[kTileSteps];
  float2 softmax[2];

  __device__ void load(const WaitingTiles& waiting, int slot, int head_tile) {
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
template <RowForm kForm>
__global__ void __launch_bounds__(kThreads, 2)
    gather_kernel(const __grid_constant__ AttentionLaunch launch, const __grid_constant__ WorkPlan plan,
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
    bring_values<kForm>(launch, list, begin * kTileEntries, dim_tile, smem);
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

void gather(const AttentionLaunch& launch, const WorkPlan& plan, CudaContext& context) {
  launch_kernel("gather_tiles",
                launch.form == RowForm::kV41 ? gather_kernel<RowForm::kV41> : gather_kernel<RowForm::kV4>,
                {.grid = dim3(kDimTiles, static_cast<unsigned>(plan.items)),
                 .threads = kThreads,
                 .shared_bytes = sizeof(GatherSmem)},
                context.stream, launch, plan);
}

}  // namespace baleen::sm80::mma_tiles
