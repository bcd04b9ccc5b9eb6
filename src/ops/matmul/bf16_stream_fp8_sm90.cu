// Products of few tokens with FP8 weights: widened to BF16 on their way from shared memory into operand registers.
//
// Blocks walk over tiles of 64 outputs; two threads keep a ring of slices full, of weights and of x. Widening takes a
// warpgroup several times as long as multiplying, and the sums of a tile are one chain over all of K: so the warpgroups
// take turns. Each widens a slice or two while others widen or multiply theirs, waits until the sums come round, adds its
// products, and hands them on through shared memory.
#include <algorithm>

#include "base/check.h"
#include "ops/matmul/bf16_launch.h"
#include "ops/matmul/bf16_load.cuh"
#include "ops/matmul/bf16_store.cuh"

namespace baleen {
namespace {

constexpr int kSlackBytes = 4096;  // alignment, barriers
constexpr int kWarpgroups = 3;
constexpr int kMultipliers = kWarpgroups * kWarpgroupThreads;
constexpr int kThreads = kMultipliers + kLoaders * kWarpThreads;

/// Two blocks on an SM, where registers suffice: one widens while the other hands its sums on, and the next kernel's weights
/// are on their way while this one ends.
constexpr int blocks_per_sm(int tokens) { return tokens <= 16 ? 2 : 1; }
constexpr int sums_bytes(int tokens) { return kMmaOutputs * tokens * static_cast<int>(sizeof(float)); }

template <int kMaxTokens, int kSlicesOfATurn>
struct Fp8Stream
    : StreamStages<kMmaOutputs, 1, kMaxTokens,
                   kSharedBytes / blocks_per_sm(kMaxTokens) - kSlackBytes - sums_bytes(kMaxTokens)> {
  static constexpr int kTurnSlices = kSlicesOfATurn;
  static constexpr int kDynamicBytes =
      Fp8Stream::kStages * Fp8Stream::kStageBytes + sums_bytes(kMaxTokens) + kGroupBytes;
};

/// The sums of a tile on their way from turn to turn: thread t of a warpgroup leaves them to thread t of the next.
template <class S>
struct Relay {
  static constexpr int kSums = S::kTokens / 2;
  float4* sums;
  std::uint64_t*
      turns;  ///< [kWarpgroups]: a phase ends when it is that warpgroup's turn. They go round through all tiles.

  /// (A loop around the wait also keeps the compiler from widening after it, when everybody waits for us.)
  __device__ void wait(int warpgroup, std::uint32_t parity) const {
    ptx::mbarrier_wait(&turns[warpgroup], parity);
  }
  __device__ void pass_on(int warpgroup, int lane) const {
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&turns[(warpgroup + 1) % kWarpgroups]);
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

/// The turns of one warpgroup over all tiles of the block.
template <class S>
__device__ void take_turns(const Bf16Products& work, const Ring& ring, const Relay<S>& relay, int warpgroup,
                           int thread, int first_token) {
  const int lane = thread % kWarpThreads;
  const int num_turns = work.num_slices / S::kTurnSlices;  // of a tile
  int whose = 0;                                           // the turn is
  float lane_scale = 0;                                    // of slice `lane` of 32
  std::uint32_t parity = 0;                                // of the own turn
  RingPlace place;
  for (int tile = static_cast<int>(blockIdx.x); tile < work.num_tiles; tile += static_cast<int>(gridDim.x)) {
    const float* scales = work.block_scales +
                          static_cast<std::int64_t>(tile * S::kTileOutputs / kSliceInputs) * work.num_slices;
    int scales_until = 0;  // slices whose scales some lane holds
    for (int turn = 0; turn < num_turns; ++turn) {
      RingPlace places[S::kTurnSlices];
#pragma unroll
      for (RingPlace& each : places) {
        each = place;
        place.advance(S::kStages);
      }
      const bool mine = whose == warpgroup;
      whose = whose + 1 == kWarpgroups ? 0 : whose + 1;
      if (!mine) continue;

      const int first_slice = turn * S::kTurnSlices;
      if (first_slice + S::kTurnSlices > scales_until) {
        scales_until = first_slice / kWarpThreads * kWarpThreads + kWarpThreads;
        const int slice = scales_until - kWarpThreads + lane;
        if (slice < work.num_slices) lane_scale = __ldg(scales + slice);
      }
      std::uint32_t a[S::kTurnSlices][kBoxesPerSlice][kMmasPerBox][4];
#pragma unroll
      for (int i = 0; i < S::kTurnSlices; ++i) {
        const std::uint32_t multiplier =
            e4m3_multiplier(__shfl_sync(0xFFFFFFFF, lane_scale, (first_slice + i) % kWarpThreads));
        ring.wait_full(places[i]);
#pragma unroll
        for (int half = 0; half < kBoxesPerSlice; ++half) {
          widen_operand<kBoxRowBytes>(a[i][half], ring.weights(places[i]), half * kMmasPerBox,
                                      operand_row(thread, 0), lane % 4, multiplier);
        }
      }
      float d[S::kTokens / 2] = {};
      relay.wait(warpgroup, parity);
      parity ^= 1;
      if (turn > 0) relay.read(d, thread);
#pragma unroll
      for (int i = 0; i < S::kTurnSlices; ++i) {
#pragma unroll
        for (int half = 0; half < kBoxesPerSlice; ++half) {
          multiply_operand<S::kTokens>(d, a[i][half], ring.tokens(places[i]) + half * S::kTokenBoxBytes,
                                       turn > 0 || i > 0 || half > 0);
        }
      }
      ptx::wgmma_wait<0>();
      hold(d);
#pragma unroll
      for (int i = 0; i < S::kTurnSlices; ++i) {
        hold_operand(a[i][0]);
        hold_operand(a[i][1]);
        ring.release(places[i].stage, lane);
      }
      const bool last = turn + 1 == num_turns;
      if (!last) relay.write(d, thread);
      relay.pass_on(warpgroup, lane);
      if (last) {
        const Bf16Products::Product& product = product_of(work, tile);
        store_each(product, d, (tile - product.first_tile) * S::kTileOutputs, first_token, work.num_rows,
                   thread);
      }
    }
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads, blocks_per_sm(S::kTokens))
    bf16_stream_fp8(const __grid_constant__ Bf16Products work) {
  extern __shared__ std::byte dynamic[];
  __shared__ RingBarriers barriers;
  __shared__ std::uint64_t turns[kWarpgroups];
  const Ring ring{align_to_group(dynamic), barriers, S::kStages, S::kWeightBytes, S::kStageBytes};
  const Relay<S> relay{reinterpret_cast<float4*>(ring.stages + S::kStages * S::kStageBytes), turns};
  if (threadIdx.x == 0) {
    for (std::uint64_t& turn : turns) ptx::mbarrier_init(&turn, kWarpsPerWarpgroup);
    barriers.init(S::kStages, kLoaders, kWarpsPerWarpgroup);
    ptx::launch_next_kernel();
  }
  __syncthreads();
  // The first turn is the first warpgroup's.
  if (threadIdx.x < kWarpsPerWarpgroup) ptx::mbarrier_arrive(&turns[0]);
  const int first_token = static_cast<int>(blockIdx.y) * S::kTokens;
  if (threadIdx.x < kMultipliers) {
    ptx::wait_for_previous_kernel();
    take_turns<S>(work, ring, relay, static_cast<int>(threadIdx.x) / kWarpgroupThreads,
                  static_cast<int>(threadIdx.x) % kWarpgroupThreads, first_token);
  } else {
    load_tiles<S>(work, ring, first_token, kMultipliers);
  }
}

template <int kTokens, int kTurnSlices>
void launch(const Bf16Work& work, CudaContext& context) {
  using S = Fp8Stream<kTokens, kTurnSlices>;
  const Bf16Products parameters = make_products(work, {.tile_outputs = S::kTileOutputs,
                                                       .weight_bytes = kBoxRowBytes,
                                                       .weight_columns = S::kWeightBoxes,
                                                       .tokens = kTokens,
                                                       .token_columns = kBoxesPerSlice});
  launch_bf16({.kernel = bf16_stream_fp8<S>,
               .grid = {static_cast<unsigned>(
                            std::min(parameters.num_tiles, blocks_per_sm(kTokens) * context.num_sms)),
                        static_cast<unsigned>((work.num_rows + kTokens - 1) / kTokens), 1},
               .threads = kThreads,
               .shared_bytes = S::kDynamicBytes},
              parameters, context);
}

}  // namespace

void bf16_stream_fp8_sm90(const Bf16Work& work, CudaContext& context) {
  BALEEN_CHECK(work.outputs.size() == 1 && work.num_segments == 1);
  if (work.num_rows <= 8) {
    launch<8, 1>(work, context);
  } else if (work.num_rows <= 16) {
    launch<16, 1>(work, context);
  } else if (work.num_rows <= 32) {
    launch<32, 1>(work, context);
  } else if (work.num_inputs % (2 * kSliceInputs) == 0) {
    launch<64, 2>(work, context);  // the sums are many: handed on less often
  } else {
    launch<64, 1>(work, context);
  }
}

}  // namespace baleen
