// Products of up to eight tokens with FP8 weights, dequantised to BF16 ahead of their use.
//
// The sums of an output are one chain over all of K, whatever the kernel. So that nothing but the chain takes
// time, tiles are as narrow as it takes to occupy every SM (8 to 64 outputs: the first rows of an operand of
// 64, the others are whatever lies behind them in shared memory and are ignored), one warpgroup does nothing
// but multiply, its sums in registers from the first slice to the last, and everything else is done ahead of
// it: one thread keeps a ring of FP8 slices full, four warpgroups in turn make BF16 slices of them in a
// second ring. Both begin before the previous kernel has ended. All of x lies in shared memory, where the
// multiplying warpgroup puts it when that has ended, rounded to e4m3 for each 32 inputs if the work asks for
// it.
#include <algorithm>

#include "base/check.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/ptx/tma.h"
#include "cuda/rounded_group.cuh"
#include "ops/matmul/cuda/slice_products.cuh"
#include "ops/matmul/sm90/bf16_kernel.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kTokens = bf16_time::kFewTokens;
constexpr int kTeams = bf16_time::FewMemory::kTeams;
constexpr int kTeamThreads = kTeams * kWarpgroupThreads;
constexpr int kThreads = kWarpgroupThreads + kTeamThreads + kWarpThreads;
constexpr int kTokenBoxBytes = kTokens * kBoxRowBytes;
constexpr int kVector = 8;  // BF16 values of 16 bytes
constexpr int kBoxVectors = kBoxInputs / kVector;
constexpr int kUnitRows = 4;   // that a warp dequantises at a time
constexpr int kUnitLanes = 8;  // of a row, 16 codes each
constexpr int kMaxBlocks = 3;  // of 32 rows: a tile of 56 outputs may begin and end within one
constexpr int kMaxSlices = bf16_time::kFewMaxInputs / kSliceInputs;
constexpr int kMaxScaleWords = kMaxBlocks * kMaxSlices;
static_assert(kTokens == kGroupRows && kMaxScaleWords <= kTeamThreads);

enum NamedBarrier : std::uint32_t { kTokensAreThere = 1, kScalesAreThere = 2 };

/// What the kernel's other parameter does not say.
struct FewArgs {
  bf16_time::FewMemory memory;
  const std::byte* x;
  std::int64_t row_stride, group_stride;  ///< of x, in values
  bool rounds;                            ///< x to e4m3 for each 32 inputs
};

/// A block's shared memory and where it is in its tiles.
struct Few {
  const Bf16Products& work;
  const bf16_time::FewMemory& memory;
  std::byte* base;
  Bf16Barriers &fp8, &bf16;
  std::uint32_t (*scales)[kMaxScaleWords];  ///< of a tile and of the next: [block][slice]

  __device__ std::byte* fp8_slice(int stage) const {
    return base + memory.fp8_offset + stage * memory.fp8_bytes;
  }
  __device__ std::byte* bf16_slice(int stage) const { return base + stage * memory.bf16_bytes; }
  __device__ std::byte* tokens(int slice) const {
    return base + memory.tokens_offset + slice * kBoxesPerSlice * kTokenBoxBytes;
  }
  __device__ int first_output(const Bf16Products::Product& product, int tile) const {
    return (tile - product.first_tile) * work.tile_outputs;
  }
};

/// Calls run(tile) for each of the block's tiles.
template <class Run>
__device__ inline void for_each_tile(const Bf16Products& work, Run run) {
  for (int tile = static_cast<int>(blockIdx.x); tile < work.num_tiles; tile += static_cast<int>(gridDim.x))
    run(tile);
}

/// One thread.
__device__ void load_weights(const Few& few) {
  RingPlace place;
  for_each_tile(few.work, [&](int tile) {
    const Bf16Products::Product& product = product_of(few.work, tile);
    const int first_output = few.first_output(product, tile);
    for (int slice = 0; slice < few.work.num_slices; ++slice, place.advance(few.memory.num_fp8)) {
      few.fp8.wait_empty(place);
      few.fp8.expect(place, static_cast<std::uint32_t>(few.memory.fp8_bytes));
      ptx::tma_load(few.fp8_slice(place.stage), product.weight, few.fp8.full(place), 0, first_output, slice,
                    ptx::L2Hint::kEvictFirst);
    }
  });
}

/// The scales of tile `tile` that thread `thread` of all teams' brings.
template <WeightFormat kWeights>
__device__ std::uint32_t load_scale(const Few& few, int tile, int thread) {
  constexpr int kBlockRows = format_layout(kWeights).scale_rows;
  const int num_slices = few.work.num_slices;
  if (tile >= few.work.num_tiles || thread >= kMaxBlocks * num_slices) return 0;
  const Bf16Products::Product& product = product_of(few.work, tile);
  const int block = few.first_output(product, tile) / kBlockRows + thread / num_slices;
  const int last = (product.num_outputs - 1) / kBlockRows;
  const auto* words = static_cast<const std::uint32_t*>(product.scales);
  return __ldg(words + std::int64_t{min(block, last)} * num_slices + thread % num_slices);
}

/// Four rows of a slice by a warp, 16 codes by a lane. `row`: the lane's in the tile.
template <WeightFormat kWeights>
__device__ inline void dequantise_row(const std::byte* codes, std::byte* values, int tile_outputs, int row,
                                      int lane, std::uint32_t scale) {
  constexpr int kHalfLanes = kUnitLanes / kBoxesPerSlice;
  const int chunk = lane % kUnitLanes, box = chunk / kHalfLanes, swizzle = row % kGroupRows;
  const std::uint32_t multiplier = kWeights == WeightFormat::kFp8x32
                                       ? e4m3_multiplier_of_code(scale >> (8 * (chunk / 2)) & 0xFFu)
                                       : e4m3_multiplier(__uint_as_float(scale));
  const uint4 piece = *reinterpret_cast<const uint4*>(codes + row * kBoxRowBytes + (chunk ^ swizzle) * 16);
  uint4 half[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    std::uint32_t low[2], high[2];
    dequantise_e4m3_pairs(i == 0 ? piece.x : piece.z, multiplier, low);
    dequantise_e4m3_pairs(i == 0 ? piece.y : piece.w, multiplier, high);
    half[i] = {low[0], low[1], high[0], high[1]};
  }
  std::byte* const to = values + box * tile_outputs * kBoxRowBytes + row * kBoxRowBytes;
  const int first = chunk % kHalfLanes * 2;
  // Lanes of the two boxes write different halves at a time: into different banks.
  const bool second = box == 1;
  *reinterpret_cast<uint4*>(to + ((first + box) ^ swizzle) * 16) = second ? half[1] : half[0];
  *reinterpret_cast<uint4*>(to + ((first + 1 - box) ^ swizzle) * 16) = second ? half[0] : half[1];
}

/// The teams: BF16 slices from FP8 ones. `thread`: of all teams.
template <WeightFormat kWeights>
__device__ void dequantise(const Few& few, int thread) {
  constexpr int kBlockRows = format_layout(kWeights).scale_rows;
  const int team = thread / kWarpgroupThreads, warp = thread % kWarpgroupThreads / kWarpThreads;
  const int lane = thread % kWarpThreads, num_slices = few.work.num_slices;
  const int tile_outputs = few.work.tile_outputs;
  RingPlace from{team, 0}, to{team, 0};
  const auto advance = [](RingPlace& place, int num_stages) {
    place.stage += kTeams;
    if (place.stage < num_stages) return;
    place.stage -= num_stages;
    place.parity ^= 1;
  };
  int slice = team;  // of the tile in hand
  int buffer = 0;
  if (thread < kMaxScaleWords)
    few.scales[0][thread] = load_scale<kWeights>(few, static_cast<int>(blockIdx.x), thread);
  ptx::named_barrier_sync(kScalesAreThere, kTeamThreads);
  for_each_tile(few.work, [&](int tile) {
    const std::uint32_t next = load_scale<kWeights>(few, tile + static_cast<int>(gridDim.x), thread);
    const Bf16Products::Product& product = product_of(few.work, tile);
    const int row_in_block = few.first_output(product, tile) % kBlockRows;
    for (; slice < num_slices; slice += kTeams) {
      few.fp8.wait_full(from);
      few.bf16.wait_empty(to);
      for (int first = warp * kUnitRows; first < tile_outputs; first += kWarpsPerWarpgroup * kUnitRows) {
        const std::uint32_t scale =
            few.scales[buffer][(row_in_block + first) / kBlockRows * num_slices + slice];
        dequantise_row<kWeights>(few.fp8_slice(from.stage), few.bf16_slice(to.stage), tile_outputs,
                                 first + lane / kUnitLanes, lane, scale);
      }
      ptx::fence_proxy_async();
      __syncwarp();
      if (lane == 0) {
        few.bf16.fill(to);
        ptx::mbarrier_arrive(few.fp8.empty(from.stage));
      }
      advance(from, few.memory.num_fp8);
      advance(to, few.memory.num_bf16);
    }
    slice -= num_slices;
    buffer ^= 1;
    if (thread < kMaxScaleWords) few.scales[buffer][thread] = next;
    ptx::named_barrier_sync(kScalesAreThere, kTeamThreads);
  });
}

/// The multiplying warpgroup: all of x, of the group of the block's tiles.
__device__ void load_tokens(const Few& few, const FewArgs& args, int thread) {
  constexpr int kAtOnce = 5;  // vectors of a thread on their way
  constexpr int kSliceVectors = kSliceInputs / kVector;
  const int group = static_cast<int>(blockIdx.x) * few.work.tile_outputs / few.work.group_outputs;
  const auto* const x = reinterpret_cast<const Bf16Bits*>(args.x) + group * args.group_stride;
  const auto row_vectors = static_cast<unsigned>(few.work.num_slices * kSliceVectors);
  const unsigned num_vectors = row_vectors * static_cast<unsigned>(few.work.num_rows);
  ptx::wait_for_previous_kernel();
  for (unsigned begin = 0; begin < num_vectors; begin += kAtOnce * kWarpgroupThreads) {
    uint4 vectors[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const unsigned at = begin + i * kWarpgroupThreads + thread;
      vectors[i] = {0, 0, 0, 0};
      if (at >= num_vectors) continue;
      const unsigned row = at / row_vectors, vector = at - row * row_vectors;
      vectors[i] = __ldcg(reinterpret_cast<const uint4*>(x + row * args.row_stride + vector * kVector));
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const unsigned at = begin + i * kWarpgroupThreads + thread;
      if (at - thread % kWarpThreads >= num_vectors) continue;  // the whole warp
      if (args.rounds) {
        float values[kVector];
        unpack_bf16(vectors[i], values);
        vectors[i] = rounded_fp8_group<kSmallActivationGroup>(values);
      }
      if (at >= num_vectors) continue;
      const unsigned row = at / row_vectors, vector = at - row * row_vectors;
      const unsigned chunk = vector % kBoxVectors, box = vector / kBoxVectors;
      std::byte* const to = few.tokens(0) + box * kTokenBoxBytes + row * kBoxRowBytes;
      *reinterpret_cast<uint4*>(to + (chunk ^ row) * 16) = vectors[i];
    }
  }
  ptx::fence_proxy_async();
  __syncwarp();
  ptx::named_barrier_sync(kTokensAreThere, kWarpgroupThreads);
}

/// The same warpgroup: all sums.
__device__ void multiply(const Few& few, int thread) {
  const int lane = thread % kWarpThreads;
  const int box_bytes = few.work.tile_outputs * kBoxRowBytes;
  RingPlace place;
  for_each_tile(few.work, [&](int tile) {
    const Bf16Products::Product& product = product_of(few.work, tile);
    float d[kTokens / 2];
    int previous = -1;  // stage still being read
    for (int slice = 0; slice < few.work.num_slices; ++slice, place.advance(few.memory.num_bf16)) {
      few.bf16.wait_full(place);
      const std::byte *const weights = few.bf16_slice(place.stage), *const x = few.tokens(slice);
      ptx::wgmma_fence();
#pragma unroll
      for (int box = 0; box < kBoxesPerSlice; ++box) {
        multiply_box<kTokens>(d, weights + box * box_bytes, x + box * kTokenBoxBytes, slice > 0 || box > 0);
      }
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      if (previous >= 0) few.bf16.release_operands(previous, lane);
      previous = place.stage;
    }
    ptx::wgmma_wait<0>();
    hold(d);
    few.bf16.release_operands(previous, lane);
    const int first_output = few.first_output(product, tile);
    const int end = min(first_output + few.work.tile_outputs, product.num_outputs);
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) {
      const int output = first_output + operand_row(thread, i), token = token_column(thread, i);
      if (output < end && token < few.work.num_rows) store_output(product, token, output, d[i]);
    }
  });
}

template <WeightFormat kWeights>
__global__ void __launch_bounds__(kThreads, 1)
    bf16_few_fp8_kernel(const __grid_constant__ Bf16Products work, const __grid_constant__ FewArgs args,
                        NextAtOnce order) {
  extern __shared__ std::byte dynamic[];
  __shared__ Bf16Barriers fp8_barriers, bf16_barriers;
  __shared__ std::uint32_t scales[2][kMaxScaleWords];
  const bf16_time::FewMemory& memory = args.memory;
  const Few few{work, memory, align_to_group(dynamic), fp8_barriers, bf16_barriers, scales};
  if (threadIdx.x == 0) {
    fp8_barriers.init(1, kWarpsPerWarpgroup, memory.num_fp8);
    bf16_barriers.init(kWarpsPerWarpgroup, kWarpsPerWarpgroup, memory.num_bf16);
    ptx::fence_mbarrier_init();
    order.launch_next();
  }
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kWarpgroupThreads) {
    load_tokens(few, args, thread);
    multiply(few, thread);
  } else if (thread < kWarpgroupThreads + kTeamThreads) {
    dequantise<kWeights>(few, thread - kWarpgroupThreads);
  } else if (thread == kWarpgroupThreads + kTeamThreads) {
    load_weights(few);
  }
}

}  // namespace

void bf16_few_fp8(const Bf16Work& work, CudaContext& context) {
  const bf16_time::Shape shape = shape_of(work);
  BALEEN_CHECK(work.num_segments == 1 && shape.has_fp8_weights);
  const auto tile_outputs = static_cast<int>(bf16_time::few_tile(shape, context.num_sms).outputs);
  BALEEN_CHECK(tile_outputs > 0);
  const Bf16Products parameters = make_products(work, {.tile_outputs = tile_outputs,
                                                       .weight_bytes = kBoxRowBytes,
                                                       .weight_columns = 1,
                                                       .tokens = kTokens,
                                                       .token_columns = kBoxesPerSlice});
  const bf16_time::FewMemory memory(tile_outputs, parameters.num_slices);
  const bool small_blocks = work.outputs.front().weight->format == WeightFormat::kFp8x32;
  launch_kernel(
      "multiplying few rows in BF16",
      small_blocks ? bf16_few_fp8_kernel<WeightFormat::kFp8x32> : bf16_few_fp8_kernel<WeightFormat::kFp8>,
      {.grid = dim3(static_cast<unsigned>(std::min(parameters.num_tiles, context.num_sms))),
       .threads = kThreads,
       .shared_bytes = memory.total_bytes + kGroupBytes},
      context.stream, parameters, FewArgs{memory, work.x, work.row_stride, work.group_stride, work.rounds_x});
}

}  // namespace baleen::sm90
