// Products of few tokens with FP8 weights: dequantised to BF16 on their way from shared memory into operand
// registers.
//
// Blocks walk over tiles of 64 outputs; two threads keep a ring of slices full, of weights and of x.
// Dequantising takes a warpgroup several times as long as multiplying, and the sums of a tile are one chain
// over all of K: so the warpgroups take turns. Each dequantises a slice or two while others dequantise or
// multiply theirs, waits until the sums come round, adds its products, and hands them on through shared
// memory. The first ones are dequantised before x is there.
#include <algorithm>

#include "base/check.h"
#include "cuda/ptx/named_barrier.h"
#include "ops/matmul/sm90/bf16_stream.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kSlackBytes = 4096;  // alignment, barriers

template <WeightFormat kWeightFormat, int kMaxTokens, int kSlicesOfATurn>
struct Fp8Stream
    : StreamStages<kMmaOutputs, 1, kMaxTokens,
                   kSharedBytes - kSlackBytes - kMmaOutputs * kMaxTokens* static_cast<int>(sizeof(float))> {
  static constexpr WeightFormat kWeights = kWeightFormat;
  static constexpr int kTurnSlices = kSlicesOfATurn;
  /// As many as have registers for their slices of operand and the sums.
  static constexpr int kWarpgroups = kMaxTokens <= 32 ? 4 : 3;
  static_assert(Fp8Stream::kStages >= kWarpgroups * kTurnSlices);
  static constexpr int kMultipliers = kWarpgroups * kWarpgroupThreads;
  static constexpr int kThreads = kMultipliers + kLoaders * kWarpThreads;
  static constexpr int kSumsBytes = kMmaOutputs * kMaxTokens * static_cast<int>(sizeof(float));
  static constexpr int kDynamicBytes = Fp8Stream::kStages * Fp8Stream::kStageBytes + kSumsBytes + kGroupBytes;
};

/// The sums of a tile on their way from turn to turn: thread t of a warpgroup leaves them to thread t of the
/// next.
template <class S>
struct Relay {
  static constexpr int kSums = S::kTokens / 2;
  float4* sums;

  /// Named barriers 1 to kWarpgroups: it is that warpgroup's turn. The turn goes round through all tiles.
  static __device__ std::uint32_t barrier(int warpgroup) { return static_cast<std::uint32_t>(1 + warpgroup); }

  /// `nothing`: zero_behind(operand).
  __device__ void wait(int warpgroup, std::uint32_t nothing) const {
    ptx::named_barrier_sync(barrier(warpgroup) + nothing, 2 * kWarpgroupThreads);
  }
  __device__ void pass_on(int warpgroup) const {
    ptx::named_barrier_arrive(barrier((warpgroup + 1) % S::kWarpgroups), 2 * kWarpgroupThreads);
  }
  __device__ void read(float (&d)[kSums], int thread) const {
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i) {
      const float4 four = sums[i * kWarpgroupThreads + thread];
      d[4 * i] = four.x;
      d[4 * i + 1] = four.y;
      d[4 * i + 2] = four.z;
      d[4 * i + 3] = four.w;
    }
  }
  __device__ void write(const float (&d)[kSums], int thread) const {
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i) {
      sums[i * kWarpgroupThreads + thread] = make_float4(d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]);
    }
  }
};

template <class S>
using TurnOperand = std::uint32_t[S::kTurnSlices][kBoxesPerSlice][kMmasPerBox][4];

/// `zero`, which the assembler must not know to be 0, as if it depended on the operand. A barrier whose
/// number has it added is met when the operand is made. Else the assembler makes an operand where it is used,
/// behind the barrier, and all other warpgroups wait for that.
template <class S>
__device__ std::uint32_t zero_behind(const TurnOperand<S>& operand, std::uint32_t zero) {
  std::uint32_t bits = 0;
#pragma unroll
  for (const auto& slice : operand) {
#pragma unroll
    for (const auto& half : slice) {
#pragma unroll
      for (const auto& instruction : half) {
#pragma unroll
        for (const std::uint32_t word : instruction) bits |= word;
      }
    }
  }
  return bits & zero;
}

/// The turns of one warpgroup over all tiles of the block. `weights` and `tokens`: the same stages, filled
/// and freed each by itself.
/// (Stages pass from warpgroup to warpgroup. A wait for one cannot take an older phase for its own: at its
/// last turn the warpgroup had the sums of all turns before, and the ring holds more slices than a round of
/// turns.)
template <class S>
__device__ void take_turns(const Bf16Products& work, const Ring& weights, const Ring& tokens,
                           const Relay<S>& relay, int warpgroup, int thread, int first_token) {
  const int lane = thread % kWarpThreads;
  const int num_turns = work.num_slices / S::kTurnSlices;  // of a tile
  const std::uint32_t zero = static_cast<std::uint32_t>(work.num_slices) >> 31;
  int whose = 0;  // the turn is
  RingPlace place;
  for (int tile = static_cast<int>(blockIdx.x); tile < work.num_tiles; tile += static_cast<int>(gridDim.x)) {
    const Bf16Products::Product& product = product_of(work, tile);
    const int first_output = (tile - product.first_tile) * S::kTileOutputs;
    const SliceScales<S::kWeights> scales(product.scales, first_output + thread / kWarpThreads * kWarpOutputs,
                                          product.num_outputs, work.num_slices);
    for (int turn = 0; turn < num_turns; ++turn) {
      RingPlace places[S::kTurnSlices];
#pragma unroll
      for (RingPlace& each : places) {
        each = place;
        place.advance(S::kStages);
      }
      const bool mine = whose == warpgroup;
      whose = whose + 1 == S::kWarpgroups ? 0 : whose + 1;
      if (!mine) continue;

      TurnOperand<S> a;
#pragma unroll
      for (int i = 0; i < S::kTurnSlices; ++i) {
        const auto multipliers = scales.at(turn * S::kTurnSlices + i);
        weights.barriers.wait_full(places[i]);
#pragma unroll
        for (int half = 0; half < kBoxesPerSlice; ++half) {
          dequantise_operand<kBoxRowBytes>(a[i][half], weights.weights(places[i]), half * kMmasPerBox,
                                           operand_row(thread, 0), lane % 4, multipliers.of_half[half]);
        }
      }
#pragma unroll
      for (const RingPlace& each : places) tokens.barriers.wait_full(each);
      float d[S::kTokens / 2] = {};
      if (turn > 0 || tile != static_cast<int>(blockIdx.x)) relay.wait(warpgroup, zero_behind<S>(a, zero));
      if (turn > 0) relay.read(d, thread);
#pragma unroll
      for (int i = 0; i < S::kTurnSlices; ++i) {
#pragma unroll
        for (int half = 0; half < kBoxesPerSlice; ++half) {
          multiply_operand<S::kTokens>(d, a[i][half], tokens.tokens(places[i]) + half * S::kTokenBoxBytes,
                                       turn > 0 || i > 0 || half > 0);
        }
      }
      ptx::wgmma_wait<0>();
      hold(d);
#pragma unroll
      for (int i = 0; i < S::kTurnSlices; ++i) {
        hold_operand(a[i][0]);
        hold_operand(a[i][1]);
        weights.barriers.release_operands(places[i].stage, lane);
        tokens.barriers.release_operands(places[i].stage, lane);
      }
      const bool last = turn + 1 == num_turns;
      if (!last) relay.write(d, thread);
      if (!last || tile + static_cast<int>(gridDim.x) < work.num_tiles) relay.pass_on(warpgroup);
      if (last) store_each(product, d, first_output, first_token, work.num_rows, thread);
    }
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    bf16_stream_fp8(const __grid_constant__ Bf16Products work, NextAtOnce order) {
  extern __shared__ std::byte dynamic[];
  __shared__ Bf16Barriers weight_barriers, token_barriers;
  std::byte* const stages = align_to_group(dynamic);
  const Ring weights{stages, weight_barriers, S::kStages, S::kWeightBytes, S::kStageBytes};
  const Ring tokens{stages, token_barriers, S::kStages, S::kWeightBytes, S::kStageBytes};
  const Relay<S> relay{reinterpret_cast<float4*>(stages + S::kStages * S::kStageBytes)};
  if (threadIdx.x == 0) {
    weight_barriers.init(1, kWarpsPerWarpgroup, S::kStages);
    token_barriers.init(1, kWarpsPerWarpgroup, S::kStages);
    ptx::fence_mbarrier_init();
    order.launch_next();
  }
  __syncthreads();
  const int first_token = static_cast<int>(blockIdx.y) * S::kTokens;
  if (threadIdx.x < S::kMultipliers) {
    take_turns<S>(work, weights, tokens, relay, static_cast<int>(threadIdx.x) / kWarpgroupThreads,
                  static_cast<int>(threadIdx.x) % kWarpgroupThreads, first_token);
  } else if (threadIdx.x == S::kMultipliers) {
    load_weights<S>(work, weights);
  } else if (threadIdx.x == S::kMultipliers + kWarpThreads) {
    load_tokens<S>(work, tokens, first_token);
  }
}

template <WeightFormat kWeights, int kTokens, int kTurnSlices>
void launch(const Bf16Work& work, CudaContext& context) {
  using S = Fp8Stream<kWeights, kTokens, kTurnSlices>;
  launch_stream<S>(bf16_stream_fp8<S>, S::kThreads, S::kDynamicBytes, work, context);
}

template <WeightFormat kWeights>
void launch_with_tokens(const Bf16Work& work, CudaContext& context) {
  std::int64_t num_tiles = 0;
  for (const Bf16Work::Output& output : work.outputs)
    num_tiles += (output.weight->rows + kMmaOutputs - 1) / kMmaOutputs;
  with_token_tile(work.num_rows, [&](auto tokens) {
    constexpr int kTokens = tokens();
    // Sums are handed on half as often where they are many, and where a part of the chip has all the work:
    // what counts is then the chain of a block, else how fast it dequantises.
    constexpr int kSlices = kTokens == 8 || kTokens == 64 ? 2 : 1;
    const bool pays = kTokens == 64 || 2 * num_tiles <= context.num_sms;
    if (pays && work.num_inputs % (kSlices * kSliceInputs) == 0) {
      launch<kWeights, kTokens, kSlices>(work, context);
    } else {
      launch<kWeights, kTokens, 1>(work, context);
    }
  });
}

}  // namespace

void bf16_stream_fp8(const Bf16Work& work, CudaContext& context) {
  BALEEN_CHECK_EQ(work.num_segments, 1);
  (work.outputs.front().weight->format == WeightFormat::kFp8
       ? launch_with_tokens<WeightFormat::kFp8>
       : launch_with_tokens<WeightFormat::kFp8x32>)(work, context);
}

}  // namespace baleen::sm90
