// Products of few tokens with few outputs: their weights are spread over the chip by cutting K into eight
// segments.
//
// A pair of blocks (a cluster) works on a tile: eight warpgroups, a segment each. A tile has as few outputs
// (8 to 64, in steps of 8) as it takes to occupy every SM: its rows are the first of an operand of 64, the
// others are whatever lies behind them in shared memory and are ignored. The segments' sums meet in
// distributed shared memory and are added in order. Two threads keep a ring full, of weights and of x; the
// weights of the first round, usually all, are on their way before the previous kernel has ended.
#include <algorithm>

#include "base/check.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/tma.h"
#include "ops/matmul/sm90/bf16_kernel.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kPair = 2;  // blocks of a cluster
constexpr int kWarpgroups = kMaxSegments / kPair;
constexpr int kMultipliers = kWarpgroups * kWarpgroupThreads;
constexpr int kLoaders = 2;  // warps: weights, x
constexpr int kThreads = kMultipliers + kLoaders * kWarpThreads;
constexpr int kWarpRows = 16;  // of an operand

/// How shared memory is laid out: ring, sums, and a margin for the rows of the last operand that are not
/// there.
struct SplitMemory {
  int stage_slices;  ///< as many of a segment as leave enough stages
  int column_bytes, token_column_bytes, weight_bytes, stage_bytes, num_stages, segment_sums, sums_offset,
      total_bytes;

  __host__ __device__ SplitMemory(int tile_outputs, int tokens, int segment_slices) {
    constexpr int kMargin = kMmaOutputs * kBoxRowBytes, kSlack = 2048;
    column_bytes = tile_outputs * kBoxRowBytes;
    token_column_bytes = tokens * kBoxRowBytes;
    segment_sums = (tile_outputs + kWarpRows - 1) / kWarpRows * kWarpRows * tokens;
    const int sums_bytes = kWarpgroups * segment_sums * static_cast<int>(sizeof(float));
    const int ring_bytes = kSharedBytes - sums_bytes - kMargin - kSlack;
    const int slice_bytes = kBoxesPerSlice * (column_bytes + token_column_bytes);
    stage_slices = segment_slices;
    while (stage_slices > 1 &&
           (segment_slices % stage_slices != 0 || ring_bytes / (stage_slices * slice_bytes) < kWarpgroups)) {
      --stage_slices;
    }
    weight_bytes = stage_slices * kBoxesPerSlice * column_bytes;
    stage_bytes = stage_slices * slice_bytes;
    const int fitting = ring_bytes / stage_bytes;
    num_stages = (fitting < kMaxStages ? fitting : kMaxStages) / kWarpgroups * kWarpgroups;
    sums_offset = num_stages * stage_bytes;
    total_bytes = sums_offset + sums_bytes + kMargin + kGroupBytes;
  }
};

/// A block's stages in the order in which they are filled: of every warpgroup's segment in turn. The ring has
/// a multiple of kWarpgroups stages, so a stage is always the same warpgroup's, which therefore sees each of
/// its phases; where K ends early, stages are passed over, never reassigned.
struct StageOrder {
  int num_slices, segment_slices, stage_slices, first_segment;
  int index = 0, warpgroup = 0;

  __device__ StageOrder(const Bf16Products& work, const SplitMemory& memory, int rank)
      : num_slices(work.num_slices),
        segment_slices(work.segment_slices),
        stage_slices(memory.stage_slices),
        first_segment(rank * kWarpgroups) {}
  __device__ bool done() const { return index >= segment_slices; }
  __device__ int first_slice() const { return (first_segment + warpgroup) * segment_slices + index; }
  /// None or less where K ended before.
  __device__ int slices() const { return min(stage_slices, num_slices - first_slice()); }
  __device__ void advance() {
    if (++warpgroup < kWarpgroups) return;
    warpgroup = 0;
    index += stage_slices;
  }
};

template <int kTokens>
struct Split {
  const Bf16Products& work;
  const Ring& ring;
  const SplitMemory& memory;
  const Bf16Products::Product& product;
  int rank, first_output, first_token;

  /// Calls load(place, first column) for every stage once it is free. (Columns beyond K arrive as zeros.)
  template <class Load>
  __device__ void for_each_stage(Load load) const {
    RingPlace place;
    for (StageOrder order(work, memory, rank); !order.done();
         order.advance(), place.advance(ring.num_stages)) {
      if (order.slices() <= 0) continue;
      ring.barriers.wait_empty(place);
      load(place, order.first_slice() * kBoxesPerSlice);
    }
  }
  /// One thread: weights, which may be on their way before the previous kernel has ended.
  __device__ void load_weights() const {
    for_each_stage([&](const RingPlace& place, int column) {
      ring.barriers.expect(place, static_cast<std::uint32_t>(memory.weight_bytes));
      ptx::tma_load(ring.weights(place), product.weight, ring.barriers.full(place), 0, first_output, column,
                    ptx::L2Hint::kEvictFirst);
    });
  }
  /// One thread of another warp: x.
  __device__ void load_tokens() const {
    ptx::wait_for_previous_kernel();
    for_each_stage([&](const RingPlace& place, int column) {
      ring.barriers.expect(place, static_cast<std::uint32_t>(memory.stage_bytes - memory.weight_bytes));
      ptx::tma_load(ring.tokens(place), work.x, ring.barriers.full(place), 0, first_token, column,
                    ptx::L2Hint::kEvictLast);
    });
  }

  /// One warpgroup: the sums of its segment to `sums`, in the order of its accumulators.
  __device__ void multiply(float* sums, int warpgroup, int thread) const {
    const int num_threads = memory.segment_sums / (kTokens / 2);  // that hold rows of the tile
    float d[kTokens / 2] = {};
    bool accumulate = false;
    RingPlace place;
    for (StageOrder order(work, memory, rank); !order.done();
         order.advance(), place.advance(ring.num_stages)) {
      if (order.warpgroup != warpgroup || order.slices() <= 0) continue;
      ring.barriers.wait_full(place);
      const std::byte *weights = ring.weights(place), *x = ring.tokens(place);
      for (int slice = order.slices(); slice > 0; --slice) {
        ptx::wgmma_fence();
#pragma unroll
        for (int box = 0; box < kBoxesPerSlice; ++box) {
          multiply_box<kTokens>(d, weights, x, accumulate || box > 0);
          weights += memory.column_bytes;
          x += memory.token_column_bytes;
        }
        ptx::wgmma_commit();
        accumulate = true;
      }
      ptx::wgmma_wait<0>();
      hold(d);
      ring.barriers.release_operands(place.stage, thread % kWarpThreads);
    }
    if (thread >= num_threads) return;
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) {
      sums[warpgroup * memory.segment_sums + i * num_threads + thread] = d[i];
    }
  }

  /// All multiplying threads of the cluster: y from the segments' sums, added in order.
  __device__ void add_segments(const float* sums) const {
    const int num_segments = (work.num_slices + work.segment_slices - 1) / work.segment_slices;
    const int num_threads = memory.segment_sums / (kTokens / 2);
    const int outputs = min(work.tile_outputs, product.num_outputs - first_output);
    const int tokens = min(kTokens, work.num_rows - first_token);
    for (int at = rank * kMultipliers + static_cast<int>(threadIdx.x); at < outputs * tokens;
         at += kPair * kMultipliers) {
      const int output = at % outputs, token = at / outputs;
      const int thread = output / kWarpRows * kWarpThreads + output % kGroupRows * 4 + token % 8 / 2;
      const int i = token / 8 * 4 + output % kWarpRows / kGroupRows * 2 + token % 2;
      const float* first = sums + i * num_threads + thread;
      float parts[kMaxSegments];
#pragma unroll
      for (int segment = 0; segment < kMaxSegments; ++segment) {
        if (segment >= num_segments) continue;
        const float* part = first + segment % kWarpgroups * memory.segment_sums;
        parts[segment] = *ptx::in_block(part, segment / kWarpgroups);
      }
      float sum = parts[0];
#pragma unroll
      for (int segment = 1; segment < kMaxSegments; ++segment) {
        if (segment < num_segments) sum += parts[segment];
      }
      store_output(product, first_token + token, first_output + output, sum);
    }
  }
};

template <int kTokens>
__global__ void __launch_bounds__(kThreads, 1)
    bf16_split(const __grid_constant__ Bf16Products work, NextAtOnce order) {
  extern __shared__ std::byte dynamic[];
  __shared__ Bf16Barriers barriers;
  const SplitMemory memory(work.tile_outputs, kTokens, work.segment_slices);
  std::byte* base = align_to_group(dynamic);
  const Ring ring{base, barriers, memory.num_stages, memory.weight_bytes, memory.stage_bytes};
  auto* sums = reinterpret_cast<float*>(base + memory.sums_offset);
  if (threadIdx.x == 0) {
    barriers.init(kLoaders, kWarpsPerWarpgroup, memory.num_stages);
    ptx::fence_mbarrier_init();
    order.launch_next();
  }
  __syncthreads();
  const int tile = static_cast<int>(blockIdx.x) / kPair;
  const Bf16Products::Product& product = product_of(work, tile);
  const Split<kTokens> split{work,
                             ring,
                             memory,
                             product,
                             static_cast<int>(ptx::cluster_rank()),
                             (tile - product.first_tile) * work.tile_outputs,
                             static_cast<int>(blockIdx.y) * kTokens};
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  if (warpgroup < kWarpgroups) {
    ptx::wait_for_previous_kernel();
    split.multiply(sums, warpgroup, static_cast<int>(threadIdx.x) % kWarpgroupThreads);
  } else if (threadIdx.x == kMultipliers) {
    split.load_weights();
  } else if (threadIdx.x == kMultipliers + kWarpThreads) {
    split.load_tokens();
  }
  __syncwarp();
  ptx::cluster_sync();
  if (warpgroup < kWarpgroups) split.add_segments(sums);
  __syncwarp();
  ptx::cluster_sync();  // no block exits while the other reads its sums
}

template <int kTokens>
void launch(const Bf16Work& work, CudaContext& context) {
  const auto num_slices = static_cast<int>(work.num_inputs / kSliceInputs);
  const auto tile_outputs =
      static_cast<int>(bf16_time::split_tile(shape_of(work), kTokens, context.num_sms).outputs);
  const SplitMemory memory(tile_outputs, kTokens, (num_slices + kMaxSegments - 1) / kMaxSegments);
  BALEEN_CHECK(memory.num_stages > 0);
  const Bf16Products parameters =
      make_products(work, {.tile_outputs = tile_outputs,
                           .weight_bytes = kBoxRowBytes,
                           .weight_columns = memory.stage_slices * kBoxesPerSlice,
                           .tokens = kTokens,
                           .token_columns = memory.stage_slices * kBoxesPerSlice});
  launch_bf16({.kernel = bf16_split<kTokens>,
               .grid = {static_cast<unsigned>(parameters.num_tiles * kPair),
                        static_cast<unsigned>((work.num_rows + kTokens - 1) / kTokens), 1},
               .threads = kThreads,
               .shared_bytes = memory.total_bytes,
               .cluster_blocks = kPair},
              parameters, context);
}

}  // namespace

void bf16_split(const Bf16Work& work, CudaContext& context) {
  BALEEN_CHECK(work.num_segments == kMaxSegments && work.num_groups == 1);
  with_token_tile(work.num_rows, [&](auto tokens) { launch<tokens()>(work, context); });
}

}  // namespace baleen::sm90
