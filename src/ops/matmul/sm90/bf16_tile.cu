// Products of many tokens: tiles of 128 outputs by up to 256 tokens, as fast as the tensor cores multiply.
//
// A pair of blocks (a cluster) works on neighbouring tiles of the same tokens: each loads its own weights and
// one half of x, which TMA writes into both. In a block one thread keeps the ring of stages (64
// inputs) full and two warpgroups multiply 64 outputs each. FP8 weights are dequantised on their way from
// shared memory into operand registers, while the tensor cores work on the stage before. Products with
// segments keep two sets of sums: the segment's and the total.
#include <algorithm>

#include "base/check.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/ptx/setmaxnreg.h"
#include "cuda/ptx/stmatrix.h"
#include "cuda/ptx/tma.h"
#include "ops/matmul/sm90/bf16_kernel.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kPair = 2;         // blocks of a cluster
constexpr int kMultipliers = 2;  // warpgroups; one more loads
constexpr int kThreads = (kMultipliers + 1) * kWarpgroupThreads;
constexpr int kTileOutputs = kMultipliers * kMmaOutputs;
static_assert(kTileOutputs == bf16_time::kTileOutputs);
constexpr int kStepsPerSlice = kBoxesPerSlice;

template <WeightFormat kWeightFormat, int kTileTokens, bool kHasSegments>
struct Tile {
  static constexpr WeightFormat kWeights = kWeightFormat;
  static constexpr bool kFp8 = is_fp8(kWeights);
  static constexpr int kTokens = kTileTokens;
  static constexpr bool kSegments = kHasSegments;

  static constexpr int kWeightRowBytes = kFp8 ? kBoxInputs : 2 * kBoxInputs;
  static constexpr int kWeightBytes = kTileOutputs * kWeightRowBytes;
  static constexpr int kHalfTokenBytes = kTokens / kPair * kBoxRowBytes;
  static constexpr int kStageBytes = kWeightBytes + kPair * kHalfTokenBytes;
  static constexpr int kSlackBytes = 2048;  // alignment, barriers
  static constexpr int kStagings = kMultipliers * kStagingBytes;
  static constexpr int kStages = (kSharedBytes - kStagings - kSlackBytes) / kStageBytes;
  static constexpr int kDynamicBytes = kStages * kStageBytes + kStagings + kGroupBytes;
};

/// A pair's tiles: neighbours of one group. Pairs of a group come first, so that its x is read from memory
/// once; then tokens, then groups.
struct Walk {
  int group_tiles, group_pairs, token_tiles, num_items;

  __host__ __device__ Walk(const Bf16Products& work, int tile_tokens) {
    const int num_groups = work.num_groups;
    group_tiles = work.num_tiles / num_groups;
    group_pairs = (group_tiles + kPair - 1) / kPair;
    token_tiles = (work.num_rows + tile_tokens - 1) / tile_tokens;
    num_items = group_pairs * token_tiles * num_groups;
  }
};

struct Item {
  int group, tile, first_token;
  bool real;  ///< false: the odd one out of a group, which only helps its neighbour

  __device__ Item(const Walk& walk, int item, int rank, int tile_tokens) {
    const int in_group = item % walk.group_pairs * kPair + rank;
    group = item / walk.group_pairs / walk.token_tiles;
    tile = group * walk.group_tiles + in_group;
    first_token = item / walk.group_pairs % walk.token_tiles * tile_tokens;
    real = in_group < walk.group_tiles;
  }
};

__device__ inline int first_item() { return static_cast<int>(blockIdx.x) / kPair; }
__device__ inline int item_stride() { return static_cast<int>(gridDim.x) / kPair; }

/// One thread.
template <class T>
__device__ void load_tiles(const Bf16Products& work, const Walk& walk, const Ring& ring, int rank) {
  constexpr std::uint16_t kBoth = (1 << kPair) - 1;
  RingPlace place;
  for (int index = first_item(); index < walk.num_items; index += item_stride()) {
    const Item item(walk, index, rank, T::kTokens);
    const Bf16Products::Product& product = product_of(work, item.tile);
    const int row = (item.tile - product.first_tile) * kTileOutputs;
    const int first_token = item.first_token + rank * (T::kTokens / kPair);
    for (int step = 0; step < work.num_slices * kStepsPerSlice; ++step, place.advance(T::kStages)) {
      std::uint64_t* full = ring.barriers.full(place);
      ring.barriers.wait_empty(place);
      ring.barriers.expect(place, T::kStageBytes);
      ptx::tma_load(ring.weights(place), product.weight, full, 0, row, step);
      ptx::tma_load_multicast(ring.tokens(place) + rank * T::kHalfTokenBytes, work.x, full, 0, first_token,
                              item.group * work.group_columns + step, kBoth);
    }
  }
}

/// Rows of a tile in their matrix.
struct TileRows {
  int first, num_rows;  ///< the tile's, the matrix's
  const void* scales;   ///< the matrix's
};

/// Of weights that have no scales.
struct NoScales {
  __device__ int next(int /*slice*/, int /*lane*/) const { return 0; }
};

template <class T>
__device__ auto scales_of(const Bf16Products& work, const TileRows& rows, int warpgroup, int warp) {
  if constexpr (T::kFp8) {
    const int first = rows.first + warpgroup * kMmaOutputs + warp * kWarpOutputs;
    return SliceScales<T::kWeights>(rows.scales, first, rows.num_rows, work.num_slices);
  } else {
    return NoScales();
  }
}

/// d = the sum over steps [begin, end), whole slices, of a warpgroup's 64 outputs.
template <class T>
__device__ void multiply_segment(float (&d)[T::kTokens / 2], const Bf16Products& work, const Ring& ring,
                                 RingPlace& place, const TileRows& rows, int begin, int end, int thread,
                                 int warpgroup) {
  const int lane = thread % kWarpThreads;
  [[maybe_unused]] auto scales = scales_of<T>(work, rows, warpgroup, thread / kWarpThreads);
  [[maybe_unused]] std::uint32_t a[kStepsPerSlice][kMmasPerBox][4];
  int previous = -1;  // stage still being read
  for (int slice = begin / kStepsPerSlice; slice < end / kStepsPerSlice; ++slice) {
    [[maybe_unused]] const auto multipliers = scales.next(slice, lane);
#pragma unroll
    for (int half = 0; half < kStepsPerSlice; ++half, place.advance(T::kStages)) {
      const bool accumulate = slice * kStepsPerSlice + half > begin;
      ring.barriers.wait_full(place);
      const std::byte* x = ring.tokens(place);
      if constexpr (T::kFp8) {
        dequantise_operand<T::kWeightRowBytes>(a[half], ring.weights(place), 0,
                                               warpgroup * kMmaOutputs + operand_row(thread, 0), lane % 4,
                                               multipliers.of_half[half]);
        multiply_operand<T::kTokens>(d, a[half], x, accumulate);
      } else {
        ptx::wgmma_fence();
        multiply_box<T::kTokens>(d, ring.weights(place) + warpgroup * kMmaOutputs * T::kWeightRowBytes, x,
                                 accumulate);
        ptx::wgmma_commit();
      }
      ptx::wgmma_wait<1>();
      if constexpr (T::kFp8) hold_operand(a[1 - half]);
      if (previous >= 0) ring.barriers.release_to_cluster<kPair>(previous, lane);
      previous = place.stage;
    }
  }
  ptx::wgmma_wait<0>();
  hold(d);
  ring.barriers.release_to_cluster<kPair>(previous, lane);
}

// Sums of a warpgroup (64 outputs of some tokens) to y: value by value, or transposed in shared memory and
// from there by TMA.

/// In kStagingBytes of shared memory, aligned to a swizzle's group.
constexpr int kStagingBf16Tokens = kStagingBytes / (kMmaOutputs * 2);
constexpr int kStagingF32Tokens = kStagingBytes / (kMmaOutputs * 4);

/// Accumulators [first, first + 4 kStagingBf16Tokens / 8) as rows of 64 BF16 outputs, a token each.
template <int kSums>
__device__ inline void stage_bf16(std::byte* staging, const float (&sums)[kSums], int first, int thread) {
  const int warp = thread / kWarpThreads, lane = thread % kWarpThreads;
  const int chunk = 2 * warp + lane / 8 % 2;  // 8 outputs
#pragma unroll
  for (int tokens = 0; tokens < kStagingBf16Tokens; tokens += 16) {
    std::uint32_t fragments[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = first + tokens / 2 + 2 * i;
      fragments[i] = pack_bf16(sums[at], sums[at + 1]);
    }
    const int token = tokens + lane / 16 * 8 + lane % 8;
    ptx::stmatrix_x4_transposed(
        staging + token * kBoxRowBytes + swizzled_chunk<kBoxRowBytes>(token, chunk) * 16, fragments);
  }
}

/// Accumulators [first, first + 4 kStagingF32Tokens / 8) as rows of 32 float32 outputs: first half, second
/// half.
template <int kSums>
__device__ inline void stage_f32(std::byte* staging, const float (&sums)[kSums], int first, int thread) {
  constexpr int kRowOutputs = kBoxRowBytes / 4, kChunkOutputs = 4;
#pragma unroll
  for (int i = 0; i < kStagingF32Tokens / 2; ++i) {
    const int output = operand_row(thread, i), token = token_column(thread, i);
    const int chunk = output % kRowOutputs / kChunkOutputs;
    std::byte* row = staging + (output / kRowOutputs * kStagingF32Tokens + token) * kBoxRowBytes;
    reinterpret_cast<float*>(
        row)[swizzled_chunk<kBoxRowBytes>(token, chunk) * kChunkOutputs + output % kChunkOutputs] =
        sums[first + i];
  }
}

/// By all threads of a warpgroup, `barrier` where they meet. y's columns `first_output` + 0 to 63, as far as
/// there are any.
template <int kSums>
__device__ inline void store_sums(const Bf16Products::Product& product, const float (&sums)[kSums],
                                  std::byte* staging, int first_output, int first_token, int num_rows,
                                  int thread, std::uint32_t barrier) {
  constexpr int kTokens = 2 * kSums;
  if (!product.y_has_map) {
    store_each(product, sums, first_output, first_token, num_rows, thread);
    return;
  }
  const auto stage_and_store = [&](auto stage, int tokens, int boxes, int box_outputs) {
#pragma unroll
    for (int begin = 0; begin < kTokens; begin += tokens) {
      if (first_token + begin >= num_rows) break;
      if (thread == 0) ptx::tma_store_wait<0>();
      ptx::named_barrier_sync(barrier, kWarpgroupThreads);
      stage(begin / 2);
      ptx::fence_proxy_async();
      ptx::named_barrier_sync(barrier, kWarpgroupThreads);
      if (thread != 0) continue;
      for (int box = 0; box < boxes; ++box) {
        ptx::tma_store(product.y_map, staging + box * tokens * kBoxRowBytes,
                       (first_output + box * box_outputs) * (kBoxRowBytes / box_outputs),
                       first_token + begin);
      }
      ptx::tma_store_commit();
    }
  };
  if (product.y_is_bf16) {
    stage_and_store([&](int first) { stage_bf16(staging, sums, first, thread); }, kStagingBf16Tokens, 1,
                    kMmaOutputs);
  } else {
    stage_and_store([&](int first) { stage_f32(staging, sums, first, thread); }, kStagingF32Tokens, 2,
                    kMmaOutputs / 2);
  }
}

/// 64 outputs of every tile.
template <class T>
__device__ void multiply_tiles(const Bf16Products& work, const Walk& walk, const Ring& ring, int rank) {
  constexpr int kSums = T::kTokens / 2;
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  const int num_steps = work.num_slices * kStepsPerSlice;
  const int segment_steps = work.segment_slices * kStepsPerSlice;
  RingPlace place;
  for (int index = first_item(); index < walk.num_items; index += item_stride()) {
    const Item item(walk, index, rank, T::kTokens);
    const Bf16Products::Product& product = product_of(work, item.real ? item.tile : 0);
    const int first_row = ((item.real ? item.tile : 0) - product.first_tile) * kTileOutputs;
    float d[kSums];
    [[maybe_unused]] float total[T::kSegments ? kSums : 1];
    for (int segment_begin = 0; segment_begin < num_steps; segment_begin += segment_steps) {
      const int segment_end = min(segment_begin + segment_steps, num_steps);
      multiply_segment<T>(d, work, ring, place, {first_row, product.num_outputs, product.scales},
                          segment_begin, segment_end, thread, warpgroup);
      if constexpr (T::kSegments) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) total[i] = segment_begin == 0 ? d[i] : total[i] + d[i];
      }
    }
    if (!item.real) continue;
    const int first_output = first_row + warpgroup * kMmaOutputs;
    std::byte* staging = ring.stages + T::kStages * T::kStageBytes + warpgroup * kStagingBytes;
    const auto barrier = static_cast<std::uint32_t>(1 + warpgroup);
    if constexpr (T::kSegments) {
      store_sums(product, total, staging, first_output, item.first_token, work.num_rows, thread, barrier);
    } else {
      store_sums(product, d, staging, first_output, item.first_token, work.num_rows, thread, barrier);
    }
  }
  if (thread == 0) ptx::tma_store_complete();  // before the block ends, and with it what it promises the next
  __syncwarp();
}

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    bf16_tile(const __grid_constant__ Bf16Products work, NextAtOnce order) {
  extern __shared__ std::byte dynamic[];
  __shared__ Bf16Barriers barriers;
  const Ring ring{align_to_group(dynamic), barriers, T::kStages, T::kWeightBytes, T::kStageBytes};
  if (threadIdx.x == 0) {
    barriers.init(1, kPair * kMultipliers * kWarpsPerWarpgroup, T::kStages);
    ptx::fence_mbarrier_init();
    order.launch_next();
  }
  ptx::cluster_sync();
  ptx::wait_for_previous_kernel();
  const Walk walk(work, T::kTokens);
  const int rank = static_cast<int>(ptx::cluster_rank());
  if (threadIdx.x / kWarpgroupThreads == kMultipliers) {
    ptx::registers_down_to<24>();
    if (threadIdx.x % kWarpgroupThreads == 0) load_tiles<T>(work, walk, ring, rank);
    __syncwarp();
  } else {
    ptx::registers_up_to<240>();
    multiply_tiles<T>(work, walk, ring, rank);
  }
  ptx::cluster_sync();  // no block exits while its neighbour still frees its stages
}

template <WeightFormat kWeights, int kTokens, bool kSegments>
void launch(const Bf16Work& work, CudaContext& context) {
  using T = Tile<kWeights, kTokens, kSegments>;
  const Bf16Products parameters = make_products(work, {.tile_outputs = kTileOutputs,
                                                       .weight_bytes = T::kWeightRowBytes,
                                                       .weight_columns = 1,
                                                       .tokens = kTokens / kPair,
                                                       .token_columns = 1,
                                                       .stores_boxes = true});
  const int items = Walk(parameters, kTokens).num_items;
  launch_bf16({.kernel = bf16_tile<T>,
               .grid = {static_cast<unsigned>(kPair * std::min(items, context.num_sms / kPair)), 1, 1},
               .threads = kThreads,
               .shared_bytes = T::kDynamicBytes,
               .cluster_blocks = kPair},
              parameters, context);
}

/// With the tile of `kTokens` that is done soonest.
template <WeightFormat kWeights, bool kSegments, int... kTokens>
void launch_quickest(const Bf16Work& work, CudaContext& context) {
  const std::int64_t tokens = bf16_time::tile_tokens(shape_of(work), context.num_sms);
  const bool is_launched =
      ((tokens == kTokens && (launch<kWeights, kTokens, kSegments>(work, context), true)) || ...);
  BALEEN_CHECK(is_launched);
}

}  // namespace

void bf16_tile(const Bf16Work& work, CudaContext& context) {
  constexpr WeightFormat kBf16 = WeightFormat::kBF16;
  const WeightFormat format = work.outputs.front().weight->format;
  if (is_fp8(format)) BALEEN_CHECK_EQ(work.num_segments, 1);
  if (format == WeightFormat::kFp8) {
    launch_quickest<WeightFormat::kFp8, false, 256, 128>(work, context);
  } else if (format == WeightFormat::kFp8x32) {
    launch_quickest<WeightFormat::kFp8x32, false, 256, 128>(work, context);
  } else if (work.num_segments == 1) {
    launch_quickest<kBf16, false, 256, 128>(work, context);
  } else {
    launch_quickest<kBf16, true, 192, 128, 64>(work, context);
  }
}

}  // namespace baleen::sm90
