// Products of few tokens with few outputs: their weights are spread over the chip by cutting K into eight segments.
//
// Four warpgroups of a block each work on segments of their own, all eight in one block, or four in each of a pair of
// blocks (a cluster). A tile has as few outputs (8 to 64, in steps of 8) as it takes to occupy every SM: its rows are the
// first of an operand of 64, the others are whatever lies behind them in shared memory and are ignored. The segments' sums
// meet in (distributed) shared memory and are added in order. Two threads keep a ring full, of weights and of x; the
// weights of the first round, usually all, are on their way before the previous kernel has ended.
#include <algorithm>

#include "base/check.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/tma.h"
#include "ops/matmul/bf16_device.cuh"
#include "ops/matmul/bf16_launch.h"
#include "ops/matmul/bf16_ring.cuh"

namespace baleen {
namespace {

constexpr int kWarpgroups = 4;
constexpr int kMultipliers = kWarpgroups * kWarpgroupThreads;
constexpr int kLoaders = 2;  // warps: weights, x
constexpr int kThreads = kMultipliers + kLoaders * kWarpThreads;
constexpr int kWarpRows = 16;  // of an operand

/// How shared memory is laid out: ring, sums, and a margin for the rows of the last operand that are not there.
struct SplitMemory {
  int stage_slices;  ///< as many of a segment as leave enough stages
  int column_bytes, token_column_bytes, weight_bytes, stage_bytes, num_stages, segment_sums, sums_offset,
      total_bytes;

  /// `segments`: of the block.
  __host__ __device__ SplitMemory(int tile_outputs, int tokens, int segment_slices, int segments) {
    constexpr int kMargin = kMmaOutputs * kBoxRowBytes, kSlack = 2048;
    column_bytes = tile_outputs * kBoxRowBytes;
    token_column_bytes = tokens * kBoxRowBytes;
    segment_sums = (tile_outputs + kWarpRows - 1) / kWarpRows * kWarpRows * tokens;
    const int sums_bytes = segments * segment_sums * static_cast<int>(sizeof(float));
    const int ring_bytes = kSharedBytes - sums_bytes - kMargin - kSlack;
    const int slice_bytes = kBoxesPerSlice * (column_bytes + token_column_bytes);
    stage_slices = segment_slices;
    while (stage_slices > 1 &&
           (segment_slices % stage_slices != 0 || ring_bytes / (stage_slices * slice_bytes) < kWarpgroups)) {
      --stage_slices;
    }
    weight_bytes = stage_slices * kBoxesPerSlice * column_bytes;
    stage_bytes = stage_slices * slice_bytes;
    num_stages = ring_bytes / stage_bytes < kMaxStages ? ring_bytes / stage_bytes : kMaxStages;
    sums_offset = num_stages * stage_bytes;
    total_bytes = sums_offset + sums_bytes + kMargin + kGroupBytes;
  }
};

/// The stages of a block, in the order in which they are filled: of every warpgroup's first segment in turn, then of the
/// second.
template <int kBlocks>
struct StageOrder {
  static constexpr int kRounds = kMaxSegments / (kBlocks * kWarpgroups);

  int num_slices, segment_slices, stage_slices, rank;
  int round = 0, index = 0, warpgroup = 0;

  __device__ StageOrder(const Bf16Products& work, const SplitMemory& memory, int block_rank)
      : num_slices(work.num_slices),
        segment_slices(work.segment_slices),
        stage_slices(memory.stage_slices),
        rank(block_rank) {
    skip_missing();
  }
  __device__ bool done() const { return round == kRounds; }
  __device__ int first_slice() const {
    return ((rank * kWarpgroups + warpgroup) * kRounds + round) * segment_slices + index;
  }
  __device__ int slices() const { return min(stage_slices, num_slices - first_slice()); }
  __device__ void advance() {
    step();
    skip_missing();
  }

 private:
  __device__ void step() {
    if (++warpgroup < kWarpgroups) return;
    warpgroup = 0;
    index += stage_slices;
    if (index < segment_slices) return;
    index = 0;
    ++round;
  }
  __device__ void skip_missing() {
    while (!done() && first_slice() >= num_slices) step();
  }
};

template <int kTokens, int kBlocks>
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
    for (StageOrder<kBlocks> order(work, memory, rank); !order.done();
         order.advance(), place.advance(ring.num_stages)) {
      ring.wait_empty(place);
      load(place, order.first_slice() * kBoxesPerSlice);
    }
  }
  /// One thread: weights, which may be on their way before the previous kernel has ended.
  __device__ void load_weights() const {
    for_each_stage([&](const RingPlace& place, int column) {
      ptx::mbarrier_arrive_expect(ring.full(place), static_cast<std::uint32_t>(memory.weight_bytes));
      ptx::tma_load(ring.weights(place), product.weight, ring.full(place), 0, first_output, column,
                    ptx::L2Hint::kEvictFirst);
    });
  }
  /// One thread of another warp: x.
  __device__ void load_tokens() const {
    ptx::wait_for_previous_kernel();
    for_each_stage([&](const RingPlace& place, int column) {
      ptx::mbarrier_arrive_expect(ring.full(place),
                                  static_cast<std::uint32_t>(memory.stage_bytes - memory.weight_bytes));
      ptx::tma_load(ring.tokens(place), work.x, ring.full(place), 0, first_token, column,
                    ptx::L2Hint::kEvictLast);
    });
  }

  /// One warpgroup: the sums of its segments to `sums`, in the order of its accumulators.
  __device__ void multiply(float* sums, int warpgroup, int thread) const {
    const int lane = thread % kWarpThreads;
    const int num_threads = memory.segment_sums / (kTokens / 2);  // that hold rows of the tile
    RingPlace place;
    StageOrder<kBlocks> order(work, memory, rank);
    for (int round = 0; round < StageOrder<kBlocks>::kRounds; ++round) {
      float d[kTokens / 2] = {};
      bool accumulate = false;
      for (; order.round == round; order.advance(), place.advance(ring.num_stages)) {
        if (order.warpgroup != warpgroup) continue;
        ring.wait_full(place);
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
        ring.release(place.stage, lane);
      }
      if (thread >= num_threads) continue;
      const int segment = warpgroup * StageOrder<kBlocks>::kRounds + round;  // of the block
#pragma unroll
      for (int i = 0; i < kTokens / 2; ++i) {
        sums[segment * memory.segment_sums + i * num_threads + thread] = d[i];
      }
    }
  }

  /// All multiplying threads of the cluster: y from the segments' sums, added in order.
  __device__ void add_segments(const float* sums) const {
    constexpr int kBlockSegments = kMaxSegments / kBlocks;
    const int num_segments = (work.num_slices + work.segment_slices - 1) / work.segment_slices;
    const int num_threads = memory.segment_sums / (kTokens / 2);
    const int outputs = min(work.tile_outputs, product.num_outputs - first_output);
    const int tokens = min(kTokens, work.num_rows - first_token);
    for (int at = rank * kMultipliers + static_cast<int>(threadIdx.x); at < outputs * tokens;
         at += kBlocks * kMultipliers) {
      const int output = at % outputs, token = at / outputs;
      const int thread = output / kWarpRows * kWarpThreads + output % kGroupRows * 4 + token % 8 / 2;
      const int i = token / 8 * 4 + output % kWarpRows / kGroupRows * 2 + token % 2;
      const float* first = sums + i * num_threads + thread;
      float parts[kMaxSegments];
#pragma unroll
      for (int segment = 0; segment < kMaxSegments; ++segment) {
        if (segment >= num_segments) continue;
        const float* part = first + segment % kBlockSegments * memory.segment_sums;
        parts[segment] = kBlocks == 1 ? *part : *ptx::in_block(part, segment / kBlockSegments);
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

template <int kTokens, int kBlocks>
__global__ void __launch_bounds__(kThreads, 1) bf16_split(const __grid_constant__ Bf16Products work) {
  extern __shared__ std::byte dynamic[];
  __shared__ RingBarriers barriers;
  const SplitMemory memory(work.tile_outputs, kTokens, work.segment_slices, kMaxSegments / kBlocks);
  std::byte* base = align_to_group(dynamic);
  const Ring ring{base, barriers, memory.num_stages, memory.weight_bytes, memory.stage_bytes};
  auto* sums = reinterpret_cast<float*>(base + memory.sums_offset);
  if (threadIdx.x == 0) {
    barriers.init(memory.num_stages, kLoaders, kWarpsPerWarpgroup);
    ptx::launch_next_kernel();
  }
  __syncthreads();
  const int tile = static_cast<int>(blockIdx.x) / kBlocks;
  const Bf16Products::Product& product = product_of(work, tile);
  const Split<kTokens, kBlocks> split{work,
                                      ring,
                                      memory,
                                      product,
                                      kBlocks == 1 ? 0 : static_cast<int>(ptx::cluster_rank()),
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
  if constexpr (kBlocks == 1) {
    __syncthreads();
  } else {
    ptx::cluster_sync();
  }
  if (warpgroup < kWarpgroups) split.add_segments(sums);
  if constexpr (kBlocks > 1) ptx::cluster_sync();  // nobody leaves while the other reads its sums
}

struct SplitShape {
  int tile_outputs;
  int num_blocks;  ///< of a cluster
};

/// The shape that takes the least time: weights come at the pace of memory, a block's bytes at the pace of an SM.
SplitShape best_shape(const Bf16Work& work, int tokens, int num_sms) {
  constexpr double kMemoryBytesPerUs = 4.3e6, kSmBytesPerUs = 6e4, kClusterUs = 1.0;
  const double row_bytes = 2.0 * static_cast<double>(work.num_inputs);
  double weight_bytes = 0;
  for (const Bf16Work::Output& output : work.outputs) weight_bytes += output.weight->total_bytes();
  SplitShape best{};
  double best_us = 1e30;
  for (const int num_blocks : {1, 2}) {
    for (int tile = kGroupRows; tile <= kMmaOutputs; tile += kGroupRows) {
      std::int64_t blocks = 0;
      for (const Bf16Work::Output& output : work.outputs) blocks += (output.weight->rows + tile - 1) / tile;
      blocks *= num_blocks * ((work.num_rows + tokens - 1) / tokens);
      const auto rounds = static_cast<double>((blocks + num_sms - 1) / num_sms);
      const double block_bytes =
          row_bytes * static_cast<double>(tile + std::min<std::int64_t>(tokens, work.num_rows)) / num_blocks;
      const double us = std::max(weight_bytes / kMemoryBytesPerUs, rounds * block_bytes / kSmBytesPerUs) +
                        (num_blocks > 1 ? kClusterUs : 0.0);
      if (us < best_us) {
        best_us = us;
        best = {tile, num_blocks};
      }
    }
  }
  return best;
}

template <int kTokens, int kBlocks>
void launch(const Bf16Work& work, int tile_outputs, CudaContext& context) {
  const auto num_slices = static_cast<int>(work.num_inputs / kSliceInputs);
  const SplitMemory memory(tile_outputs, kTokens, (num_slices + kMaxSegments - 1) / kMaxSegments,
                           kMaxSegments / kBlocks);
  const Bf16Products parameters =
      make_products(work, {.tile_outputs = tile_outputs,
                           .weight_bytes = kBoxRowBytes,
                           .weight_columns = memory.stage_slices * kBoxesPerSlice,
                           .tokens = kTokens,
                           .token_columns = memory.stage_slices * kBoxesPerSlice});
  launch_bf16({.kernel = bf16_split<kTokens, kBlocks>,
               .grid = {static_cast<unsigned>(parameters.num_tiles * kBlocks),
                        static_cast<unsigned>((work.num_rows + kTokens - 1) / kTokens), 1},
               .threads = kThreads,
               .shared_bytes = memory.total_bytes,
               .cluster_blocks = kBlocks},
              parameters, context);
}

template <int kTokens>
void launch_best(const Bf16Work& work, CudaContext& context) {
  const SplitShape shape = best_shape(work, kTokens, context.num_sms);
  if (shape.num_blocks == 1) {
    launch<kTokens, 1>(work, shape.tile_outputs, context);
  } else {
    launch<kTokens, 2>(work, shape.tile_outputs, context);
  }
}

}  // namespace

void bf16_split_sm90(const Bf16Work& work, CudaContext& context) {
  BALEEN_CHECK(work.num_segments == kMaxSegments && work.num_groups == 1);
  if (work.num_rows <= 8) {
    launch_best<8>(work, context);
  } else if (work.num_rows <= 16) {
    launch_best<16>(work, context);
  } else if (work.num_rows <= 32) {
    launch_best<32>(work, context);
  } else {
    launch_best<64>(work, context);
  }
}

}  // namespace baleen
