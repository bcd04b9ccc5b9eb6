/// The kernel of the compressor.
///
/// One launch: entries from the step's rows and the ring, then the ring. A thread loads four channels of
/// eight rows, which is all there is to an entry of ratio 4: one thread block makes it, and every row of the
/// step is read once. An entry of ratio 128 is shared by a cluster: a thread block takes 64 channels, sixteen
/// groups of threads eight rows each; the blocks exchange their sums of squares for the norm. Where GPUs have
/// no clusters, one thread block takes all channels, 64 after the other; the bits are the same.
///
/// Sums over rows, over groups and over channels have one order, whether a row lies in the step or in the
/// ring.
#pragma once

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/latent_rows.cuh"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/rotation.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/compressor/cuda/channels.cuh"
#include "ops/compressor/cuda/compressor.h"
#include "ops/compressor/cuda/index_key_row.cuh"
#include "ops/compressor/cuda/step_items.cuh"
#include "ops/rope/cuda/device_angle.cuh"

namespace baleen::BALEEN_ARCH {
namespace compressor_kernels {

inline constexpr int kRowsPerThread = 8;
inline constexpr int kMaxHeadDim = 512;
inline constexpr int kLanesOfGroup = kLatentGroup / kPiece;  // of a row group, where there are several

/// How an entry's values are shared out.
template <int kRatio>
struct PoolShape {
  static constexpr bool kOverlaps = kRatio == kOverlappingRatio;
  static constexpr int kRowGroups = kOverlaps ? 1 : kRatio / kRowsPerThread;
  /// Channels that a thread block has at a time; 0: all of them.
  static constexpr int kSlice = kOverlaps ? 0 : kLatentGroup;
  static constexpr int kMaxThreads = kOverlaps ? kMaxHeadDim / kPiece : kSlice / kPiece * kRowGroups;

  /// Of a multiprocessor: enough rows in flight, and registers for a thread's 8 x 3 x 4 values.
  static constexpr int min_blocks(bool clusters) { return kOverlaps ? 4 : clusters ? 2 : 1; }

  static constexpr int threads(int head_dim) { return kOverlaps ? head_dim / kPiece : kMaxThreads; }
  static constexpr int num_slices(int head_dim) { return kOverlaps ? 1 : head_dim / kSlice; }
};

struct CompressorParams {
  const float* kv;
  const float* gate;
  std::int64_t kv_stride;
  std::int64_t gate_stride;
  const float* ape;
  const float* norm_weight;
  const float* frequencies;
  float eps;
  int head_dim;
  int rope;
  bool is_settled;  ///< all of it may be done before the kernel's wait
  DeviceBatch batch;
  CompressorState state;
  CompressorOverlap overlap;
  DeviceLatentPool latent;
  DeviceIndexKeyPool index_key;
};

/// What one thread has to do with a step's rows: a group of rows and four channels.
template <int kRatio>
class Worker {
  using Shape = PoolShape<kRatio>;

 public:
  /// `slice`: of the channels.
  __device__ Worker(const CompressorParams& params, const StepItem& item, int slice)
      : p(params), item(item), end(item.sequence.start + item.sequence.num_tokens) {
    if constexpr (Shape::kOverlaps) {
      channel = kPiece * static_cast<int>(threadIdx.x);
      group = 0;
    } else {
      constexpr int kColumns = Shape::kSlice / kPiece;
      channel = Shape::kSlice * slice + kPiece * (static_cast<int>(threadIdx.x) % kColumns);
      group = static_cast<int>(threadIdx.x) / kColumns;
    }
  }

  /// Entries [max(start, entries_until) / ratio, end / ratio) are made in this step.
  __device__ bool makes_entry(int entry_idx) const {
    return entry_idx >= max(item.sequence.start, item.sequence.entries_until) / kRatio &&
           entry_idx < end / kRatio;
  }

  /// The rows that entry `entry_idx` pools (where entries overlap, those of the entry before it too). No
  /// branches, and nothing waits: all loads are in flight together.
  struct Rows {
    Channels kv[kRowsPerThread], gate[kRowsPerThread], bias[kRowsPerThread];
  };
  __device__ Rows load(int entry_idx) const {
    Rows rows;
    constexpr int kRun =
        Shape::kOverlaps ? kRatio : kRowsPerThread;  // rows that lie one after the other in the ring
#pragma unroll
    for (int first = 0; first < kRowsPerThread; first += kRun) {
      const int column = Shape::kOverlaps && first >= kRatio ? channel + p.head_dim : channel;
      // Before the sequence there is nothing: the step's first rows stand in for it, and `pool` leaves them
      // out.
      const int begin = position_of(entry_idx, first);
      const Source of_step = step_row(begin < 0 ? item.sequence.start : begin);
      const Source of_ring = ring_row(max(begin, 0));
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        const bool stored = begin >= 0 && begin + i < item.sequence.start;
        const std::int64_t in_ring = i * p.state.width + column;
        const float* kv =
            stored ? of_ring.kv + in_ring : of_step.kv + (begin < 0 ? 0 : i * p.kv_stride) + column;
        const float* gate =
            stored ? of_ring.gate + in_ring : of_step.gate + (begin < 0 ? 0 : i * p.gate_stride) + column;
        rows.kv[first + i] = Channels::load_from_l2(kv);
        rows.gate[first + i] = Channels::load_from_l2(gate);
        rows.bias[first + i] = Channels::load(bias_row(max(begin, 0)) + i * p.state.width + column);
      }
    }
    return rows;
  }

  /// The entry's four channels. With row groups, the first warp has them, twice.
  __device__ Channels pool(int entry_idx, Rows& rows) const {
    Channels(&kv)[kRowsPerThread] = rows.kv, (&gate)[kRowsPerThread] = rows.gate;
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const int position = position_of(entry_idx, i);
      if (position >= item.sequence.start) gate[i] += rows.bias[i];  // in the ring it is added already
      if (position < 0) kv[i] = Channels::filled(0.0F), gate[i] = Channels::filled(-INFINITY);
    }
    Channels maximum = gate[0];
#pragma unroll
    for (int i = 1; i < kRowsPerThread; ++i) maximum.raise_to(gate[i]);
    if constexpr (!Shape::kOverlaps) maximum = over_groups_maximum(maximum);

    Channels weights = Channels::filled(0.0F), sums = weights;
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
#pragma unroll
      for (int j = 0; j < kPiece; ++j) {
        // Its error grows with the distance from the maximum, and what it weighs falls faster.
        const float weight = __expf(gate[i].value[j] - maximum.value[j]);
        weights.value[j] += weight;
        sums.value[j] = fmaf(weight, kv[i].value[j], sums.value[j]);
      }
    }
    if constexpr (!Shape::kOverlaps) over_groups_sum(weights, sums);
#pragma unroll
    for (int j = 0; j < kPiece; ++j) sums.value[j] = __fdividef(sums.value[j], weights.value[j]);
    return sums;
  }

  /// Rows that a later step needs, once what they replace is not read any more. The last of every position
  /// modulo the ring.
  __device__ void keep_rows() const {
    constexpr int kHalves = Shape::kOverlaps ? 2 : 1;
    const int first = max(item.sequence.start, end - static_cast<int>(p.state.ring_rows));
    float* ring = p.state.base + item.sequence.state_slot * p.state.slot_stride;
    const std::int64_t to_gate = p.state.ring_rows * p.state.width;
    for (int from = first + group; from < end; from += kRowsAtOnce * Shape::kRowGroups) {
      Channels kv[kRowsAtOnce][kHalves], gate[kRowsAtOnce][kHalves], bias[kRowsAtOnce][kHalves];
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) {
        const int position = from + i * Shape::kRowGroups;
        if (position >= end) break;
        const Source step = step_row(position);
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          const int column = channel + half * p.head_dim;
          kv[i][half] = Channels::load_from_l2(step.kv + column);
          gate[i][half] = Channels::load_from_l2(step.gate + column);
          bias[i][half] = Channels::load(bias_row(position) + column);
        }
      }
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) {
        const int position = from + i * Shape::kRowGroups;
        if (position >= end) break;
        float* row = ring + position % static_cast<int>(p.state.ring_rows) * p.state.width + channel;
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          gate[i][half] += bias[i][half];
          kv[i][half].store(row + half * p.head_dim);
          gate[i][half].store(row + to_gate + half * p.head_dim);
        }
      }
    }
  }

  /// First halves of the step's rows in entry `entry_idx`, which is the last of its page.
  __device__ void keep_overlap(int entry_idx) const {
    const int first = max(item.sequence.start, kRatio * entry_idx), last = min(end, kRatio * (entry_idx + 1));
    const PageId page = item.sequence.window_pages[first / static_cast<int>(kPageTokens)];
    float* rows = p.overlap.base + static_cast<std::int64_t>(page) * p.overlap.page_stride + channel;
    for (int position = first; position < last; ++position) {
      const Source step = step_row(position);
      Channels gate = Channels::load_from_l2(step.gate + channel);
      gate += Channels::load(bias_row(position) + channel);
      float* row = rows + position % static_cast<int>(kOverlapRows) * p.overlap.width;
      Channels::load_from_l2(step.kv + channel).store(row);
      gate.store(row + kOverlapRows * p.overlap.width);
    }
  }

  int channel;
  int group;

 private:
  static constexpr int kRowsAtOnce = 4;

  /// Where a position's kv and gate lie.
  struct Source {
    const float* kv;
    const float* gate;
  };

  __device__ int position_of(int entry_idx, int i) const {
    return kRatio * (Shape::kOverlaps ? entry_idx - 1 : entry_idx) + kRowsPerThread * group + i;
  }
  __device__ const float* bias_row(int position) const { return p.ape + position % kRatio * p.state.width; }

  __device__ Source step_row(int position) const {
    const std::int64_t row = item.sequence.first_row + position - item.sequence.start;
    return {p.kv + row * p.kv_stride, p.gate + row * p.gate_stride};
  }
  __device__ Source ring_row(int position) const {
    const float* kv = p.state.base + item.sequence.state_slot * p.state.slot_stride +
                      position % static_cast<int>(p.state.ring_rows) * p.state.width;
    return {kv, kv + p.state.ring_rows * p.state.width};
  }

  // A warp holds two row groups, lane l and l + 16 the same channels: they meet first, then the warps in
  // shared memory.
  __device__ Channels over_groups_maximum(Channels maximum) const {
    constexpr int kWarps = Shape::kMaxThreads / kWarpLanes;
    __shared__ float of_warp[kWarps][kLatentGroup];
    const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
              lane = static_cast<int>(threadIdx.x) % kWarpLanes;
    const int column = channel % kLatentGroup;
    maximum.raise_to(maximum.of_lane_xor(kLanesOfGroup));
    if (lane < kLanesOfGroup) maximum.store(&of_warp[warp][column]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kWarps; ++i) maximum.raise_to(Channels::load(&of_warp[i][column]));
    return maximum;
  }

  /// To the first warp.
  __device__ void over_groups_sum(Channels& weights, Channels& sums) const {
    constexpr int kWarps = Shape::kMaxThreads / kWarpLanes;
    __shared__ float weights_of_warp[kWarps][kLatentGroup], sums_of_warp[kWarps][kLatentGroup];
    const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
              lane = static_cast<int>(threadIdx.x) % kWarpLanes;
    const int column = channel % kLatentGroup;
    weights += weights.of_lane_xor(kLanesOfGroup);
    sums += sums.of_lane_xor(kLanesOfGroup);
    if (lane < kLanesOfGroup) {
      weights.store(&weights_of_warp[warp][column]);
      sums.store(&sums_of_warp[warp][column]);
    }
    __syncthreads();
    if (warp != 0) return;
    weights = Channels::load(&weights_of_warp[0][column]);
    sums = Channels::load(&sums_of_warp[0][column]);
#pragma unroll
    for (int i = 1; i < kWarps; ++i) {
      weights += Channels::load(&weights_of_warp[i][column]);
      sums += Channels::load(&sums_of_warp[i][column]);
    }
  }

  const CompressorParams& p;
  const StepItem& item;
  const int end;
};

/// Sum over the threads that hold the entry's channels: the block's, or with row groups those of the first
/// warp's first half in every block of the cluster.
template <int kRatio>
__device__ float sum_over_entry(float value, int head_dim) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  if constexpr (PoolShape<kRatio>::kOverlaps) {
    __shared__ float of_warp[kMaxHeadDim / kPiece / kWarpLanes];
    const int num_warps = head_dim / (kPiece * kWarpLanes);
    value = warp_sum(value);
    if (num_warps == 1) return value;
    __syncthreads();  // an entry before this one may still be reading
    if (threadIdx.x % kWarpLanes == 0) of_warp[warp] = value;
    __syncthreads();
    float sum = of_warp[0];
    for (int i = 1; i < num_warps; ++i) sum += of_warp[i];
    return sum;
  } else {
    __shared__ float of_block;
    value = warp_sum<kLanesOfGroup>(value);
    if (threadIdx.x == 0) of_block = value;
    ptx::cluster_sync();
    float sum = 0.0F;
    for (int rank = 0; rank < head_dim / PoolShape<kRatio>::kSlice; ++rank) {
      sum += *ptx::in_block(&of_block, static_cast<std::uint32_t>(rank));
    }
    ptx::cluster_sync();  // no block exits while its sum is being read
    return sum;
  }
}

/// `kKnown`: the sum of squares over the entry is `known_squares`; else it is found here.
template <int kRatio, bool kKnown = false>
__device__ void make_entry(const CompressorParams& p, const StepItem& item, const Worker<kRatio>& worker,
                           int entry_idx, float known_squares = 0.0F) {
  const int channel = worker.channel;
  typename Worker<kRatio>::Rows rows = worker.load(entry_idx);
  // While they are on their way, what does not need them.
  const Channels weight = Channels::load(p.norm_weight + channel);
  const int rows_per_page = p.index_key.base != nullptr ? p.index_key.rows_per_page : p.latent.rows_per_page;
  const PageId page = item.sequence.pages[entry_idx / rows_per_page];
  const int row = entry_idx % rows_per_page;
  const bool turns = channel >= p.head_dim - p.rope && worker.group == 0;
  CosineSine first{1.0F, 0.0F}, second{1.0F, 0.0F};
  if (turns) {
    const int pair = (channel - (p.head_dim - p.rope)) / 2;
    first = rope_angle(p.frequencies[pair], kRatio * entry_idx);
    second = rope_angle(p.frequencies[pair + 1], kRatio * entry_idx);
  }

  Channels entry = worker.pool(entry_idx, rows);
  float squares = 0.0F;
#pragma unroll
  for (int i = 0; i < kPiece; ++i) {
    entry.value[i] = rounded_to_bf16(entry.value[i]);
    squares = fmaf(entry.value[i], entry.value[i], squares);
  }
  if constexpr (kKnown) {
    squares = known_squares;
  } else {
    squares = sum_over_entry<kRatio>(squares, p.head_dim);
  }
  if (!PoolShape<kRatio>::kOverlaps && threadIdx.x >= kWarpLanes) return;  // the first warp has the entry
  const float inverse = 1.0F / sqrtf(squares / static_cast<float>(p.head_dim) + p.eps);
#pragma unroll
  for (int i = 0; i < kPiece; ++i)
    entry.value[i] = rounded_to_bf16(weight.value[i] * entry.value[i] * inverse);
  if (turns) {
    rotate_pair(entry.value[0], entry.value[1], first.cosine, first.sine);
    rotate_pair(entry.value[2], entry.value[3], second.cosine, second.sine);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) entry.value[i] = rounded_to_bf16(entry.value[i]);
  }
  if (p.index_key.base != nullptr) {
    store_index_key(p.index_key, page, row, transformed_key(entry));
  } else {
    store_latent_values(p.latent, page, row, channel, entry.value, worker.group == 0);
  }
}

/// An entry of row groups by one thread block that has all slices of the channels: once for the sum of
/// squares, and once more, now that it is known.
template <int kRatio>
__device__ void make_entry_of_slices(const CompressorParams& p, const StepItem& item, int entry_idx) {
  __shared__ float sum_of_squares;
  const int num_slices = PoolShape<kRatio>::num_slices(p.head_dim);
  float squares = 0.0F;
  for (int slice = 0; slice < num_slices; ++slice) {
    const Worker<kRatio> worker(p, item, slice);
    typename Worker<kRatio>::Rows rows = worker.load(entry_idx);
    const Channels entry = worker.pool(entry_idx, rows);
    float of_slice = 0.0F;
#pragma unroll
    for (const float value : entry.value) {
      const float rounded = rounded_to_bf16(value);
      of_slice = fmaf(rounded, rounded, of_slice);
    }
    squares += warp_sum<kLanesOfGroup>(of_slice);
    __syncthreads();  // the next slice's sums take the place of this one's
  }
  if (threadIdx.x == 0) sum_of_squares = squares;
  __syncthreads();
  for (int slice = 0; slice < num_slices; ++slice) {
    make_entry<kRatio, true>(p, item, Worker<kRatio>(p, item, slice), entry_idx, sum_of_squares);
    __syncthreads();
  }
}

/// Blocks of a cluster have a slice of the channels each; without clusters a block has all.
template <int kRatio, bool kClusters>
__device__ void compress(const CompressorParams& p) {
  using Shape = PoolShape<kRatio>;
  StepItem item;
  const int blocks = kClusters ? Shape::num_slices(p.head_dim) : 1;
  const int index = static_cast<int>(blockIdx.x) / blocks;
  if (!find_step_item<kRatio>(p.batch, index, item)) return;  // the whole cluster

  const int first_slice = kClusters && !Shape::kOverlaps ? static_cast<int>(ptx::cluster_rank()) : 0;
  const Worker<kRatio> worker(p, item, first_slice);
  constexpr int kEntriesOfPage = static_cast<int>(kPageTokens) / kRatio;
  for (int entry_idx = item.first_entry; entry_idx <= item.last_entry; ++entry_idx) {
    if (worker.makes_entry(entry_idx)) {
      if constexpr (kClusters || Shape::kOverlaps) {
        make_entry<kRatio>(p, item, worker, entry_idx);
      } else {
        make_entry_of_slices<kRatio>(p, item, entry_idx);
      }
    }
    if constexpr (Shape::kOverlaps) {
      if (p.overlap.base != nullptr && entry_idx % kEntriesOfPage == kEntriesOfPage - 1)
        worker.keep_overlap(entry_idx);
    }
  }
  if (!item.first_of_sequence) return;
  __syncthreads();  // all have read the ring
  worker.keep_rows();
  if constexpr (!kClusters) {
    for (int slice = 1; slice < Shape::num_slices(p.head_dim); ++slice)
      Worker<kRatio>(p, item, slice).keep_rows();
  }
}

// With ratio 128 attention comes next, the first of two kernels in a decode step. One of them takes up to 10
// us longer when attention begins while this kernel has just begun (on two H100s in every layer, on one in
// some; the cause was not found).
template <int kRatio>
inline constexpr NextKernel kNextOf =
    PoolShape<kRatio>::kOverlaps ? NextKernel::kAtOnce : NextKernel::kBehindWait;

template <int kRatio, bool kClusters>
__global__ void __launch_bounds__(PoolShape<kRatio>::kMaxThreads, PoolShape<kRatio>::min_blocks(kClusters))
    compressor_kernel(const __grid_constant__ CompressorParams p, KernelOrder<kNextOf<kRatio>> order) {
  constexpr bool kNextAtOnce = kNextOf<kRatio> == NextKernel::kAtOnce;
  if constexpr (kNextAtOnce) order.launch_next();
  if (!p.is_settled) ptx::wait_for_previous_kernel();
  compress<kRatio, kClusters>(p);
  // In any case: the kernel before is done when this one is.
  if constexpr (kNextAtOnce) {
    ptx::wait_for_previous_kernel();
  } else {
    order.wait().launch_next();
  }
}

template <int kRatio, bool kClusters>
void launch(const CompressorParams& params, CudaContext& context) {
  using Shape = PoolShape<kRatio>;
  const std::int64_t num_items = max_step_items<kRatio>(context.batch.num_rows, context.batch.num_sequences);
  const int cluster = kClusters ? Shape::num_slices(params.head_dim) : 1;
  if (num_items == 0) return;
  launch_kernel("compressor", compressor_kernel<kRatio, kClusters>,
                {.grid = dim3(static_cast<unsigned>(num_items * cluster)),
                 .threads = Shape::threads(params.head_dim),
                 .cluster = cluster},
                context.stream, params);
}

}  // namespace compressor_kernels

/// `compressor`. `kClusters`: the GPU has clusters.
template <bool kClusters>
void compress_rows(const CompressorArgs& args, CudaContext& context) {
  using namespace compressor_kernels;
  const auto head_dim = static_cast<std::int64_t>(args.norm_weight.size());
  const bool overlaps = args.ratio == kOverlappingRatio;
  const bool latent = args.latent.base != nullptr;
  BALEEN_CHECK(overlaps || args.ratio == 128);
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK((args.latent.base == nullptr) != (args.index_key.base == nullptr));
  BALEEN_CHECK(head_dim % (kPiece * kWarpLanes) == 0 && head_dim <= kMaxHeadDim);
  BALEEN_CHECK_EQ(args.state.width, (overlaps ? 2 : 1) * head_dim);
  BALEEN_CHECK_EQ(args.state.ring_rows % args.ratio, 0);
  BALEEN_CHECK_LE((overlaps ? 2 : 1) * args.ratio, args.state.ring_rows);
  BALEEN_CHECK(args.overlap.base == nullptr || (overlaps && args.overlap.width == head_dim));
  BALEEN_CHECK_EQ(args.kv.extent(0), context.batch.num_rows);
  BALEEN_CHECK_EQ(args.kv.extent(1), args.state.width);
  BALEEN_CHECK(args.gate.extents() == args.kv.extents());
  BALEEN_CHECK(args.kv.stride(0) % kPiece == 0 && args.gate.stride(0) % kPiece == 0);
  BALEEN_CHECK(args.ape.extent(0) == args.ratio && args.ape.extent(1) == args.state.width &&
               args.ape.dense());
  if (latent) {
    BALEEN_CHECK_EQ(args.latent.format.width(), head_dim);
    BALEEN_CHECK(!args.latent.format.has_groups());
    BALEEN_CHECK_EQ(args.latent.format.rope, static_cast<int>(2 * args.frequencies.size()));
  } else {
    BALEEN_CHECK(overlaps && head_dim == kPiece * kWarpLanes && args.index_key.format.dim == head_dim);
    BALEEN_CHECK(args.index_key.format.precision == Precision::kReleased);
  }
  Accesses accesses;
  ops::Compressor::accesses(args, accesses);
  CompressorParams params{.kv = args.kv.data(),
                          .gate = args.gate.data(),
                          .kv_stride = args.kv.stride(0),
                          .gate_stride = args.gate.stride(0),
                          .ape = args.ape.data(),
                          .norm_weight = args.norm_weight.data(),
                          .frequencies = args.frequencies.data(),
                          .eps = args.eps,
                          .head_dim = static_cast<int>(head_dim),
                          .rope = static_cast<int>(2 * args.frequencies.size()),
                          .is_settled = context.stream.is_settled(accesses),
                          .batch = context.batch,
                          .state = args.state,
                          .overlap = args.overlap};
  if (latent) {
    params.latent = DeviceLatentPool(args.latent);
  } else {
    params.index_key = {args.index_key.base, args.index_key.page_stride_bytes, args.index_key.rows_per_page};
  }
  overlaps ? launch<kOverlappingRatio, kClusters>(params, context) : launch<128, kClusters>(params, context);
}

}  // namespace baleen::BALEEN_ARCH
