// Products of few tokens: every weight passes once through shared memory, as fast as memory gives it.
//
// A producer warp keeps a ring of slices (weights and x) full; two warpgroups multiply. Three ways to share the work:
//   BF16, many outputs:  tiles of 128, 64 for each warpgroup; blocks walk over tiles.
//   BF16, few outputs:   K is split over a cluster of four blocks, in each block over the two warpgroups: eight segments,
//                        whose sums meet in distributed shared memory. A block has as few outputs as it takes to have
//                        one for every SM.
//   FP8:                 tiles of 64 outputs, widened on their way from shared memory into operand registers. Up to 32
//                        tokens the widening counts and the tensor cores idle: each warpgroup takes 32 outputs and
//                        leaves every other group of 8 rows of its operand zero. Beyond, one warpgroup takes all 64.
#include <algorithm>

#include "base/check.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "cuda/widen_e4m3.cuh"
#include "ops/matmul/bf16_device.cuh"
#include "ops/matmul/bf16_launch.h"

namespace baleen {
namespace {

enum class StreamKind : std::uint8_t { kBf16Tiles, kBf16Segments, kFp8Tiles };

constexpr int kClusterBlocks = 4;

template <StreamKind kKind, int kTokens>
struct Stream {
  static constexpr bool kFp8 = kKind == StreamKind::kFp8Tiles;
  static constexpr bool kSegments = kKind == StreamKind::kBf16Segments;
  /// A warpgroup's operand has every other group of 8 rows zero.
  static constexpr bool kHalfOperand = kFp8 && kTokens <= 32;
  static constexpr int kWarpgroups = kFp8 && !kHalfOperand ? 1 : 2;
  static constexpr int kThreads = kWarpgroups * kWarpgroupThreads + kWarpThreads;
  static constexpr int kProducerWarp = kWarpgroups * kWarpsPerWarpgroup;

  static constexpr int kTileOutputs = kKind == StreamKind::kBf16Tiles ? 2 * kMmaOutputs : kMmaOutputs;
  static constexpr int kWeightBoxes = kFp8 ? 1 : kBoxesPerSlice;
  static constexpr int kWeightBoxBytes = kTileOutputs * kBoxRowBytes;
  static constexpr int kTokenBoxBytes = kTokens * kBoxRowBytes;
  static constexpr int kStageBytes = kWeightBoxes * kWeightBoxBytes + kBoxesPerSlice * kTokenBoxBytes;
  /// Sums of both warpgroups' segments.
  static constexpr int kSums = kSegments ? kMmaOutputs * kTokens : 0;
  static constexpr int kSumsBytes = kWarpgroups * kSums * static_cast<int>(sizeof(float));
  static constexpr int kSlackBytes = 2048;  // alignment, barriers
  static constexpr int kStages = (kSharedBytes - kSumsBytes - kSlackBytes) / kStageBytes;
  static constexpr int kDynamicBytes = kSumsBytes + kStages * kStageBytes + kGroupBytes;

  /// Arrivals that free a stage: of every warp that reads it.
  static constexpr int kReaders = (kSegments ? 1 : kWarpgroups) * kWarpsPerWarpgroup;
};

/// The slices of a block of a cluster: `length` per segment, one segment for each warpgroup, in turn while both last.
struct SegmentPair {
  int first_slice;
  int segment_slices;
  int length[2];

  __device__ SegmentPair(const Bf16Products& work, int rank)
      : first_slice(2 * rank * work.segment_slices), segment_slices(work.segment_slices) {
    for (int i = 0; i < 2; ++i) {
      length[i] = max(0, min(segment_slices, work.num_slices - first_slice - i * segment_slices));
    }
  }
  /// Slices arrive in steps. The second segment is never the longer one.
  __device__ int steps() const { return length[0] + length[1]; }
  __device__ int slice_of(int step) const {
    return step < 2 * length[1] ? first_slice + step % 2 * segment_slices + step / 2
                                : first_slice + step - length[1];
  }
  __device__ int step_of(int warpgroup, int index) const {
    return index < length[1] ? 2 * index + warpgroup : index + length[1];
  }
};

template <class S>
struct Ring {
  std::byte* stages;
  std::uint64_t* full;
  std::uint64_t* empty;

  __device__ std::byte* weights(int stage) const { return stages + stage * S::kStageBytes; }
  __device__ std::byte* tokens(int stage) const {
    return weights(stage) + S::kWeightBoxes * S::kWeightBoxBytes;
  }
  __device__ void wait_full(int step) const {
    ptx::mbarrier_wait(&full[step % S::kStages], step / S::kStages % 2);
  }
  __device__ void wait_empty(int step) const {
    ptx::mbarrier_wait(&empty[step % S::kStages], step / S::kStages % 2 ^ 1);
  }
  /// By one lane of each reading warp.
  __device__ void release(int step, int lane) const {
    if (lane == 0) ptx::mbarrier_arrive(&empty[step % S::kStages]);
  }
};

/// Where a block's steps lead: tiles and slices.
template <class S>
struct Route {
  const Bf16Products& work;
  SegmentPair pair;
  int first_tile, tile_stride, steps_per_tile, num_steps;

  __device__ explicit Route(const Bf16Products& products)
      : work(products), pair(products, S::kSegments ? static_cast<int>(ptx::cluster_rank()) : 0) {
    if constexpr (S::kSegments) {
      first_tile = static_cast<int>(blockIdx.x) / kClusterBlocks;
      tile_stride = work.num_tiles;
      steps_per_tile = pair.steps();
    } else {
      first_tile = static_cast<int>(blockIdx.x);
      tile_stride = static_cast<int>(gridDim.x);
      steps_per_tile = work.num_slices;
    }
    num_steps = (work.num_tiles - first_tile + tile_stride - 1) / tile_stride * steps_per_tile;
  }
  __device__ int tile_of(int step) const { return first_tile + step / steps_per_tile * tile_stride; }
  __device__ int slice_of(int step) const {
    return S::kSegments ? pair.slice_of(step) : step % steps_per_tile;
  }
};

template <class S>
__device__ void load_weights(const Route<S>& route, const Ring<S>& ring, int step) {
  const int tile = route.tile_of(step), slice = route.slice_of(step), stage = step % S::kStages;
  const Bf16Products::Product& product = product_of(route.work, tile);
  const int row = (tile - product.first_tile) * route.work.tile_outputs;
#pragma unroll
  for (int box = 0; box < S::kWeightBoxes; ++box) {
    ptx::tma_load(ring.weights(stage) + box * S::kWeightBoxBytes, product.weight, &ring.full[stage],
                  (slice * S::kWeightBoxes + box) * kBoxRowBytes, row, ptx::L2Hint::kEvictFirst);
  }
}

template <class S>
__device__ void load_tokens(const Route<S>& route, const Ring<S>& ring, int step, int first_token) {
  const int tile = route.tile_of(step), slice = route.slice_of(step), stage = step % S::kStages;
  const int group = tile * route.work.tile_outputs / route.work.group_outputs;
#pragma unroll
  for (int box = 0; box < kBoxesPerSlice; ++box) {
    ptx::tma_load(ring.tokens(stage) + box * S::kTokenBoxBytes, route.work.x, &ring.full[stage],
                  (slice * kBoxesPerSlice + box) * kBoxRowBytes, first_token, group, ptx::L2Hint::kEvictLast);
  }
}

/// One thread. Weights of the first round are on their way before the previous kernel has finished.
template <class S>
__device__ void produce(const Route<S>& route, const Ring<S>& ring, int first_token) {
  const std::uint32_t stage_bytes =
      S::kWeightBoxes * route.work.tile_outputs * kBoxRowBytes + kBoxesPerSlice * S::kTokenBoxBytes;
  const int early = min(S::kStages, route.num_steps);
  for (int step = 0; step < early; ++step) {
    ptx::mbarrier_arrive_expect(&ring.full[step], stage_bytes);
    load_weights(route, ring, step);
  }
  ptx::wait_for_previous_kernel();
  for (int step = 0; step < early; ++step) load_tokens(route, ring, step, first_token);
  for (int step = early; step < route.num_steps; ++step) {
    ring.wait_empty(step);
    ptx::mbarrier_arrive_expect(&ring.full[step % S::kStages], stage_bytes);
    load_weights(route, ring, step);
    load_tokens(route, ring, step, first_token);
  }
}

/// What a thread of a multiplying warpgroup is.
struct Place {
  int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads;
  int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  int quad = lane % 4;
};

/// FP8 weights of one tile, all slices in one chain.
template <class S, int kTokens>
__device__ void multiply_fp8(float (&d)[kTokens / 2], const Route<S>& route, const Ring<S>& ring,
                             const Place& place, int first_step) {
  const Bf16Products& work = route.work;
  const int row = S::kHalfOperand
                      ? (place.warpgroup * kWarpsPerWarpgroup + place.warp) * kGroupRows + place.lane / 4
                      : place.warp * 2 * kGroupRows + place.lane / 4;
  const int tile = route.tile_of(first_step);
  const float* scales =
      work.block_scales + static_cast<std::int64_t>(tile * S::kTileOutputs / kSliceInputs) * work.num_slices;
  float lane_scale = 0;  // of slice `lane` of every 32
  std::uint32_t a[kBoxesPerSlice][kMmasPerBox][4];
  for (int slice = 0; slice < work.num_slices; ++slice) {
    const int step = first_step + slice, stage = step % S::kStages;
    if (slice % kWarpThreads == 0 && slice + place.lane < work.num_slices) {
      lane_scale = __ldg(scales + slice + place.lane);
    }
    const std::uint32_t multiplier =
        e4m3_multiplier(__shfl_sync(0xFFFFFFFF, lane_scale, slice % kWarpThreads));
    ring.wait_full(step);
#pragma unroll
    for (int half = 0; half < kBoxesPerSlice; ++half) {
      widen_operand<kBoxRowBytes, S::kHalfOperand>(a[half], ring.weights(stage), half * kMmasPerBox, row,
                                                   place.quad, multiplier);
      multiply_operand<kTokens>(d, a[half], ring.tokens(stage) + half * S::kTokenBoxBytes,
                                slice > 0 || half > 0);
      ptx::wgmma_wait<1>();  // the half before, whose registers come next
      hold_operand(a[1 - half]);
      if (half == 0 && slice > 0) ring.release(step - 1, place.lane);
    }
  }
  ptx::wgmma_wait<0>();
  hold(d);
  ring.release(first_step + work.num_slices - 1, place.lane);
}

/// BF16 weights: `num_slices` slices in one chain, the i-th at step `step_of(i)`; the operand starts `weight_offset`
/// bytes into a box.
template <class S, int kTokens, class StepOf>
__device__ void multiply_bf16(float (&d)[kTokens / 2], const Ring<S>& ring, const Place& place,
                              int num_slices, int weight_offset, StepOf step_of) {
  for (int i = 0; i < num_slices; ++i) {
    const int step = step_of(i), stage = step % S::kStages;
    ring.wait_full(step);
    ptx::wgmma_fence();
#pragma unroll
    for (int box = 0; box < kBoxesPerSlice; ++box) {
      multiply_box<kTokens>(d, ring.weights(stage) + box * S::kWeightBoxBytes + weight_offset,
                            ring.tokens(stage) + box * S::kTokenBoxBytes, i > 0 || box > 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    if (i > 0) ring.release(step_of(i - 1), place.lane);
  }
  ptx::wgmma_wait<0>();
  hold(d);
  if (num_slices > 0) ring.release(step_of(num_slices - 1), place.lane);
}

/// Tiles whose sums are complete in one warpgroup.
template <class S, int kTokens>
__device__ void multiply_tiles(const Route<S>& route, const Ring<S>& ring, int first_token) {
  const Place place;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  for (int first_step = 0; first_step < route.num_steps; first_step += route.steps_per_tile) {
    float d[kTokens / 2];
    if constexpr (S::kFp8) {
      multiply_fp8<S, kTokens>(d, route, ring, place, first_step);
    } else {
      multiply_bf16<S, kTokens>(d, ring, place, route.work.num_slices,
                                place.warpgroup * kMmaOutputs * kBoxRowBytes,
                                [&](int i) { return first_step + i; });
    }
    const int tile = route.tile_of(first_step);
    const Bf16Products::Product& product = product_of(route.work, tile);
    const int first_output = (tile - product.first_tile) * S::kTileOutputs;
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) {
      if (S::kHalfOperand && i % 4 >= 2) continue;
      const int row = S::kHalfOperand
                          ? (place.warpgroup * kWarpsPerWarpgroup + place.warp) * kGroupRows + place.lane / 4
                          : place.warpgroup * kMmaOutputs + operand_row(thread, i);
      const int token = first_token + token_column(thread, i);
      if (first_output + row < product.num_outputs && token < route.work.num_rows) {
        store_output(product, token, first_output + row, d[i]);
      }
    }
  }
}

/// The sums of the cluster's segments, added in order.
template <class S, int kTokens>
__device__ void add_segments(const Route<S>& route, const float* sums, int first_token) {
  const Bf16Products& work = route.work;
  const Bf16Products::Product& product = product_of(work, route.first_tile);
  const int first_output = (route.first_tile - product.first_tile) * work.tile_outputs;
  const int num_segments = (work.num_slices + work.segment_slices - 1) / work.segment_slices;
  constexpr int kAdders = kClusterBlocks * S::kWarpgroups * kWarpgroupThreads;
  const int adder = static_cast<int>(ptx::cluster_rank() * S::kWarpgroups * kWarpgroupThreads + threadIdx.x);
  for (int at = adder; at < S::kSums; at += kAdders) {
    const int thread = at % kWarpgroupThreads, i = at / kWarpgroupThreads;
    const int row = operand_row(thread, i), output = first_output + row;
    const int token = first_token + token_column(thread, i);
    if (row >= work.tile_outputs || output >= product.num_outputs || token >= work.num_rows) continue;
    float parts[kMaxSegments];
#pragma unroll
    for (int segment = 0; segment < kMaxSegments; ++segment) {
      if (segment < num_segments) {
        parts[segment] = *ptx::in_block(sums + segment % 2 * S::kSums + at, segment / 2);
      }
    }
    float sum = parts[0];
#pragma unroll
    for (int segment = 1; segment < kMaxSegments; ++segment) {
      if (segment < num_segments) sum += parts[segment];
    }
    store_output(product, token, output, sum);
  }
}

template <StreamKind kKind, int kTokens>
__global__ void __launch_bounds__(Stream<kKind, kTokens>::kThreads, 1)
    bf16_stream(const __grid_constant__ Bf16Products work) {
  using S = Stream<kKind, kTokens>;
  extern __shared__ std::byte dynamic[];
  __shared__ std::uint64_t full[S::kStages], empty[S::kStages];
  std::byte* aligned = dynamic + (-ptx::shared_address(dynamic) & (kGroupBytes - 1));
  const Ring<S> ring{aligned, full, empty};
  auto* sums = reinterpret_cast<float*>(aligned + S::kStages * S::kStageBytes);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < S::kStages; ++stage) {
      ptx::mbarrier_init(&full[stage], 1);
      ptx::mbarrier_init(&empty[stage], S::kReaders);
    }
    ptx::fence_mbarrier_init();
    ptx::launch_next_kernel();
  }
  __syncthreads();
  const Route<S> route(work);
  const int first_token = static_cast<int>(blockIdx.y) * kTokens;
  if (threadIdx.x / kWarpThreads == S::kProducerWarp) {
    if (threadIdx.x % kWarpThreads == 0) produce(route, ring, first_token);
    __syncwarp();
  } else {
    ptx::wait_for_previous_kernel();
    if constexpr (S::kSegments) {
      const Place place;
      const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
      float d[kTokens / 2] = {};
      multiply_bf16<S, kTokens>(d, ring, place, route.pair.length[place.warpgroup], 0,
                                [&](int i) { return route.pair.step_of(place.warpgroup, i); });
#pragma unroll
      for (int i = 0; i < kTokens / 2; ++i) {
        if (operand_row(thread, i) < work.tile_outputs) {
          sums[place.warpgroup * S::kSums + i * kWarpgroupThreads + thread] = d[i];
        }
      }
    } else {
      multiply_tiles<S, kTokens>(route, ring, first_token);
    }
  }
  if constexpr (S::kSegments) {
    ptx::cluster_sync();
    if (threadIdx.x / kWarpThreads != S::kProducerWarp) add_segments<S, kTokens>(route, sums, first_token);
    ptx::cluster_sync();  // nobody leaves while others read its sums
  }
}

template <StreamKind kKind, int kTokens>
void launch(const Bf16Work& work, int tile_outputs, CudaContext& context) {
  using S = Stream<kKind, kTokens>;
  const Bf16Products parameters =
      make_products(work, {.tile_outputs = tile_outputs, .weight_bytes = kBoxRowBytes, .tokens = kTokens});
  const auto token_tiles = static_cast<unsigned>((work.num_rows + kTokens - 1) / kTokens);
  const int blocks =
      S::kSegments ? parameters.num_tiles * kClusterBlocks : std::min(parameters.num_tiles, context.num_sms);
  launch_bf16({.kernel = bf16_stream<kKind, kTokens>,
               .grid = {static_cast<unsigned>(blocks), token_tiles, 1},
               .threads = S::kThreads,
               .shared_bytes = S::kDynamicBytes,
               .cluster_blocks = S::kSegments ? kClusterBlocks : 1},
              parameters, context);
}

template <StreamKind kKind>
void launch_for_tokens(const Bf16Work& work, int tile_outputs, CudaContext& context) {
  if (work.num_rows <= 8) {
    launch<kKind, 8>(work, tile_outputs, context);
  } else if (work.num_rows <= 16) {
    launch<kKind, 16>(work, tile_outputs, context);
  } else if (work.num_rows <= 32) {
    launch<kKind, 32>(work, tile_outputs, context);
  } else {
    launch<kKind, 64>(work, tile_outputs, context);
  }
}

/// The largest tile that gives every SM a block, or the smallest there is.
int outputs_per_block(const Bf16Work& work, int num_sms) {
  constexpr int kSmallest = 8;
  for (int tile = kMmaOutputs; tile > kSmallest; tile /= 2) {
    std::int64_t blocks = 0;
    for (const Bf16Work::Output& output : work.outputs) {
      blocks += kClusterBlocks * ((output.weight->rows + tile - 1) / tile);
    }
    // A cluster lies within a part of the chip; not every SM finds partners.
    if (blocks >= num_sms - num_sms / 8) return tile;
  }
  return kSmallest;
}

}  // namespace

void bf16_stream_sm90(const Bf16Work& work, CudaContext& context) {
  if (work.outputs.front().weight->format == WeightFormat::kFp8) {
    BALEEN_CHECK(work.outputs.size() == 1 && work.num_segments == 1);
    launch_for_tokens<StreamKind::kFp8Tiles>(work, kMmaOutputs, context);
  } else if (work.num_segments == 1) {
    launch_for_tokens<StreamKind::kBf16Tiles>(work, 2 * kMmaOutputs, context);
  } else {
    launch_for_tokens<StreamKind::kBf16Segments>(work, outputs_per_block(work, context.num_sms), context);
  }
}

}  // namespace baleen
