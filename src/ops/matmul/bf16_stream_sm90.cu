// Products of few tokens with many outputs: every weight passes once through shared memory, as fast as memory gives it.
//
// Blocks walk over tiles of outputs. A producer warp keeps a ring of slices (weights and x) full; the weights of the first
// round are on their way before the previous kernel has ended. Two warpgroups multiply, 64 outputs each of BF16 weights.
// FP8 weights come in tiles of 64 outputs and are widened on their way from shared memory into operand registers. Up to 32
// tokens the widening counts and the tensor cores idle: each warpgroup takes 32 outputs and leaves every other group of 8
// rows of its operand zero. Beyond, one warpgroup takes all 64.
#include <algorithm>

#include "base/check.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/tma.h"
#include "ops/matmul/bf16_device.cuh"
#include "ops/matmul/bf16_launch.h"
#include "ops/matmul/bf16_ring.cuh"

namespace baleen {
namespace {

template <bool kFp8Weights, int kMaxTokens>
struct Stream {
  static constexpr bool kFp8 = kFp8Weights;
  static constexpr int kTokens = kMaxTokens;
  /// A warpgroup's operand has every other group of 8 rows zero.
  static constexpr bool kHalfOperand = kFp8 && kTokens <= 32;
  static constexpr int kWarpgroups = kFp8 && !kHalfOperand ? 1 : 2;
  static constexpr int kMultipliers = kWarpgroups * kWarpgroupThreads;
  static constexpr int kThreads = kMultipliers + kWarpThreads;

  static constexpr int kTileOutputs = kFp8 ? kMmaOutputs : 2 * kMmaOutputs;
  static constexpr int kWeightBoxes = kFp8 ? 1 : kBoxesPerSlice;
  static constexpr int kWeightBoxBytes = kTileOutputs * kBoxRowBytes;
  static constexpr int kTokenBoxBytes = kTokens * kBoxRowBytes;
  static constexpr int kWeightBytes = kWeightBoxes * kWeightBoxBytes;
  static constexpr int kStageBytes = kWeightBytes + kBoxesPerSlice * kTokenBoxBytes;
  static constexpr int kSlackBytes = 2048;  // alignment, barriers
  static constexpr int kStages = std::min(kMaxStages, (kSharedBytes - kSlackBytes) / kStageBytes);
  static constexpr int kDynamicBytes = kStages * kStageBytes + kGroupBytes;
};

/// The loads of a block, a slice at a time: all slices of a tile, then the next tile.
template <class S>
struct LoadCursor {
  const Bf16Products& work;
  const Ring& ring;
  int first_token;
  int tile, row, group, slice = 0;
  const CUtensorMap* weight;
  RingPlace place;

  __device__ LoadCursor(const Bf16Products& products, const Ring& stages, int token)
      : work(products), ring(stages), first_token(token) {
    enter(static_cast<int>(blockIdx.x));
  }
  __device__ void enter(int next_tile) {
    tile = next_tile;
    const Bf16Products::Product& product = product_of(work, tile);
    weight = &product.weight;
    row = (tile - product.first_tile) * S::kTileOutputs;
    group = tile * S::kTileOutputs / work.group_outputs;
  }
  __device__ bool done() const { return tile >= work.num_tiles; }
  __device__ void advance() {
    place.advance(S::kStages);
    if (++slice < work.num_slices) return;
    slice = 0;
    enter(tile + static_cast<int>(gridDim.x));
  }
  __device__ void load_weights() const {
    ptx::mbarrier_arrive_expect(ring.full(place), S::kStageBytes);
#pragma unroll
    for (int box = 0; box < S::kWeightBoxes; ++box) {
      ptx::tma_load(ring.weights(place) + box * S::kWeightBoxBytes, *weight, ring.full(place),
                    (slice * S::kWeightBoxes + box) * kBoxRowBytes, row, ptx::L2Hint::kEvictFirst);
    }
  }
  __device__ void load_tokens() const {
#pragma unroll
    for (int box = 0; box < kBoxesPerSlice; ++box) {
      ptx::tma_load(ring.tokens(place) + box * S::kTokenBoxBytes, work.x, ring.full(place),
                    (slice * kBoxesPerSlice + box) * kBoxRowBytes, first_token, group,
                    ptx::L2Hint::kEvictLast);
    }
  }
};

/// One thread.
template <class S>
__device__ void load_tiles(const Bf16Products& work, const Ring& ring, int first_token) {
  LoadCursor<S> weights(work, ring, first_token), tokens(work, ring, first_token);
  for (int stage = 0; stage < S::kStages && !weights.done(); ++stage, weights.advance())
    weights.load_weights();
  ptx::wait_for_previous_kernel();
  for (int stage = 0; stage < S::kStages && !tokens.done(); ++stage, tokens.advance()) tokens.load_tokens();
  for (; !tokens.done(); tokens.advance()) {
    ring.wait_empty(tokens.place);
    tokens.load_weights();
    tokens.load_tokens();
  }
}

/// d = the sums of a tile of BF16 weights; `weight_offset`: of the warpgroup's rows in a box.
template <class S>
__device__ void multiply_bf16(float (&d)[S::kTokens / 2], const Bf16Products& work, const Ring& ring,
                              RingPlace& place, int weight_offset, int lane) {
  int previous = -1;  // stage still being read
  for (int slice = 0; slice < work.num_slices; ++slice, place.advance(S::kStages)) {
    ring.wait_full(place);
    ptx::wgmma_fence();
#pragma unroll
    for (int box = 0; box < kBoxesPerSlice; ++box) {
      multiply_box<S::kTokens>(d, ring.weights(place) + box * S::kWeightBoxBytes + weight_offset,
                               ring.tokens(place) + box * S::kTokenBoxBytes, slice > 0 || box > 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    if (previous >= 0) ring.release(previous, lane);
    previous = place.stage;
  }
  ptx::wgmma_wait<0>();
  hold(d);
  ring.release(previous, lane);
}

/// The same of FP8 weights; `row`: the thread's first in the tile, `scales`: of the tile's slices.
template <class S>
__device__ void multiply_fp8(float (&d)[S::kTokens / 2], const Bf16Products& work, const Ring& ring,
                             RingPlace& place, const float* scales, int row, int lane) {
  float lane_scale = 0;  // of slice `lane` of every 32
  std::uint32_t a[kBoxesPerSlice][kMmasPerBox][4];
  int previous = -1;  // stage still being read
  for (int slice = 0; slice < work.num_slices; ++slice, place.advance(S::kStages)) {
    if (slice % kWarpThreads == 0 && slice + lane < work.num_slices)
      lane_scale = __ldg(scales + slice + lane);
    const std::uint32_t multiplier =
        e4m3_multiplier(__shfl_sync(0xFFFFFFFF, lane_scale, slice % kWarpThreads));
    ring.wait_full(place);
#pragma unroll
    for (int half = 0; half < kBoxesPerSlice; ++half) {
      widen_operand<kBoxRowBytes, S::kHalfOperand>(a[half], ring.weights(place), half * kMmasPerBox, row,
                                                   lane % 4, multiplier);
      multiply_operand<S::kTokens>(d, a[half], ring.tokens(place) + half * S::kTokenBoxBytes,
                                   slice > 0 || half > 0);
      ptx::wgmma_wait<1>();  // the half before, whose registers come next
      hold_operand(a[1 - half]);
      if (half == 0 && previous >= 0) ring.release(previous, lane);
    }
    previous = place.stage;
  }
  ptx::wgmma_wait<0>();
  hold(d);
  ring.release(previous, lane);
}

template <class S>
__device__ void multiply_tiles(const Bf16Products& work, const Ring& ring, int first_token) {
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  const int lane = thread % kWarpThreads;
  const int half_row = static_cast<int>(threadIdx.x) / 4;  // 8 rows for each warp
  const int first_row = S::kHalfOperand ? half_row : warpgroup * kMmaOutputs + operand_row(thread, 0);
  RingPlace place;
  for (int tile = static_cast<int>(blockIdx.x); tile < work.num_tiles; tile += static_cast<int>(gridDim.x)) {
    float d[S::kTokens / 2];
    if constexpr (S::kFp8) {
      const float* scales =
          work.block_scales +
          static_cast<std::int64_t>(tile * S::kTileOutputs / kSliceInputs) * work.num_slices;
      multiply_fp8<S>(d, work, ring, place, scales, first_row, lane);
    } else {
      multiply_bf16<S>(d, work, ring, place, warpgroup * kMmaOutputs * kBoxRowBytes, lane);
    }
    const Bf16Products::Product& product = product_of(work, tile);
    const int first_output = (tile - product.first_tile) * S::kTileOutputs + first_row;
#pragma unroll
    for (int i = 0; i < S::kTokens / 2; ++i) {
      if (S::kHalfOperand && i % 4 >= 2) continue;  // rows that are zero
      const int output = first_output + (i % 4 < 2 ? 0 : kGroupRows);
      const int token = first_token + token_column(thread, i);
      if (output < product.num_outputs && token < work.num_rows) store_output(product, token, output, d[i]);
    }
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) bf16_stream(const __grid_constant__ Bf16Products work) {
  extern __shared__ std::byte dynamic[];
  __shared__ RingBarriers barriers;
  const Ring ring{align_to_group(dynamic), barriers, S::kStages, S::kWeightBytes, S::kStageBytes};
  if (threadIdx.x == 0) {
    barriers.init(S::kStages, S::kWarpgroups * kWarpsPerWarpgroup);
    ptx::launch_next_kernel();
  }
  __syncthreads();
  const int first_token = static_cast<int>(blockIdx.y) * S::kTokens;
  if (threadIdx.x < S::kMultipliers) {
    ptx::wait_for_previous_kernel();
    multiply_tiles<S>(work, ring, first_token);
  } else if (threadIdx.x == S::kMultipliers) {
    load_tiles<S>(work, ring, first_token);
  }
}

template <bool kFp8, int kTokens>
void launch(const Bf16Work& work, CudaContext& context) {
  using S = Stream<kFp8, kTokens>;
  const Bf16Products parameters =
      make_products(work, {.tile_outputs = S::kTileOutputs, .weight_bytes = kBoxRowBytes, .tokens = kTokens});
  launch_bf16({.kernel = bf16_stream<S>,
               .grid = {static_cast<unsigned>(std::min(parameters.num_tiles, context.num_sms)),
                        static_cast<unsigned>((work.num_rows + kTokens - 1) / kTokens), 1},
               .threads = S::kThreads,
               .shared_bytes = S::kDynamicBytes},
              parameters, context);
}

template <bool kFp8>
void launch_for_tokens(const Bf16Work& work, CudaContext& context) {
  if (work.num_rows <= 8) {
    launch<kFp8, 8>(work, context);
  } else if (work.num_rows <= 16) {
    launch<kFp8, 16>(work, context);
  } else if (work.num_rows <= 32) {
    launch<kFp8, 32>(work, context);
  } else {
    launch<kFp8, 64>(work, context);
  }
}

}  // namespace

void bf16_stream_sm90(const Bf16Work& work, CudaContext& context) {
  BALEEN_CHECK_EQ(work.num_segments, 1);
  if (work.outputs.front().weight->format == WeightFormat::kFp8) {
    BALEEN_CHECK(work.outputs.size() == 1);
    launch_for_tokens<true>(work, context);
  } else {
    launch_for_tokens<false>(work, context);
  }
}

}  // namespace baleen
