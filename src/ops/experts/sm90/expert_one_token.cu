#include "ops/experts/sm90/expert_one_token.h"

#include <algorithm>

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/row_quantise.cuh"
#include "ops/experts/sm90/expert_activation.cuh"
#include "ops/experts/sm90/expert_dispatch.h"
#include "ops/experts/sm90/expert_place.cuh"
#include "ops/experts/sm90/expert_row_product.cuh"
#include "ops/experts/sm90/expert_weights.h"

namespace baleen::sm90 {
namespace {

constexpr int kMaxGroups = 4;
constexpr int kMaxThreads = kMaxGroups * kGroupThreads;

// Of the whole block, which meets from both sides of a branch.
constexpr std::uint32_t kBlockBarrier = 1;

// A block of the first kernel has that many groups for routed experts and one more for the shared one, whose
// pieces have rows (of w1 and w3 each) for the bytes of a routed one's in FP4.
constexpr int kInnerGroups = 3;
constexpr int kSharedPieceRows = 16;

struct OneTokenParams {
  ExpertRows gate, up, down;   ///< of the routed experts
  const std::int32_t* places;  ///< theirs; null: expert e is at place e
  ExpertRows shared_gate, shared_up, shared_down;
  const std::int32_t* ids;
  const float* weights;
  const Bf16Bits* x;
  Fp8Rows x_fp8;
  Bf16Bits* inner;  ///< [assignments, inner_pitch]: a of every slot, then of the shared expert
  Bf16Bits* out;    ///< null: the sum goes to `sums`
  float* sums;      ///< partial, in float32
  std::int32_t width;
  std::int32_t inner_width;           ///< of routed experts
  std::int32_t shared_inner_width;    ///< another where only one of them is split over ranks
  bool rounds_routed, rounds_shared;  ///< y, before it is added
  std::int32_t num_selected;
  std::int32_t first_expert;  ///< of this rank; experts are counted from it
  std::int32_t num_experts;   ///< of this rank
  bool has_shared;
  float swiglu_limit;

  /// -1: padding, or an expert of another rank. Past the first-level cache: the second kernel reads before it
  /// waits.
  [[nodiscard]] __device__ int expert_of(int slot) const {
    const std::int32_t id = __ldcg(ids + slot), expert = id - first_expert;
    return id >= 0 && expert >= 0 && expert < num_experts ? expert : -1;
  }
  [[nodiscard]] __host__ __device__ int inner_pitch() const {
    return inner_width > shared_inner_width ? inner_width : shared_inner_width;
  }
  /// Two assignments are a warpgroup's of the second kernel.
  [[nodiscard]] __host__ __device__ int num_pairs() const { return (num_selected + 1) / 2; }
  /// Where the shared expert's assignment comes.
  [[nodiscard]] __host__ __device__ int shared_assignment() const { return 2 * num_pairs(); }
  [[nodiscard]] __host__ __device__ int num_assignments() const {
    return has_shared ? shared_assignment() + 1 : num_selected;
  }
};

/// Slices of a row of `num_values`, up to a whole stage of FP4.
__host__ __device__ constexpr int padded_slices(int num_values) {
  return (num_values / kFp8RowBlock + 1) / 2 * 2;
}

/// Where column `column` of chunk `chunk` of slice `slice` is.
__device__ std::uint8_t* column_chunk(std::uint8_t* columns, int slice, int chunk, int column) {
  return columns + kChunkBytes * ((slice * kSliceChunks + chunk) * kProductColumns + column);
}

/// Word `source` of a slice to its place for the products.
__device__ void store_column_word(std::uint8_t* columns, int slice, int column, int source,
                                  std::uint32_t codes) {
  constexpr int kChunkWords = kChunkBytes / 4;
  const int word = product_word(source);
  reinterpret_cast<std::uint32_t*>(
      column_chunk(columns, slice, word / kChunkWords, column))[word % kChunkWords] = codes;
}

__device__ int warp_index() { return static_cast<int>(threadIdx.x) / kWarpLanes; }
__device__ int lane_index() { return static_cast<int>(threadIdx.x) % kWarpLanes; }
__device__ int group_index() { return static_cast<int>(threadIdx.x) / kGroupThreads; }
/// Row of either half that is this thread's.
__device__ int row_in_piece() {
  return static_cast<int>(threadIdx.x) % kGroupThreads / kWarpLanes * 8 + lane_index() / 4;
}

template <int kStages>
__device__ std::uint8_t* group_ring(std::uint8_t* rings) {
  return rings + group_index() * kStages * kGroupStageBytes;
}

/// x as codes in the products' order, and its scales.
__device__ void quantise_x(const OneTokenParams& p, std::uint8_t* columns, float* scales) {
  const int num_slices = p.width / kFp8RowBlock, padded = padded_slices(p.width);
  const int num_warps = static_cast<int>(blockDim.x) / kWarpLanes;
#pragma unroll 4
  for (int slice = warp_index(); slice < padded; slice += num_warps) {
    const int lane = lane_index();
    const int column = min(slice, num_slices - 1) * kFp8RowBlock + 4 * lane;
    std::uint32_t codes;
    float scale;
    if (p.x_fp8.codes != nullptr) {
      codes = *reinterpret_cast<const std::uint32_t*>(p.x_fp8.codes + column);
      scale = p.x_fp8.scales[column / kFp8RowBlock * p.x_fp8.scale_stride];
    } else {
      const uint2 words = *reinterpret_cast<const uint2*>(p.x + column);
      const float values[4] = {bf16_low(words.x), bf16_high(words.x), bf16_low(words.y), bf16_high(words.y)};
      const Fp8Piece<4> piece = quantise_fp8_block(values);
      codes = piece.codes[0];
      scale = piece.scale;
    }
    store_column_word(columns, slice, 0, lane, slice < num_slices ? codes : 0);
    if (lane == 0) scales[slice] = slice < num_slices ? scale : 0.0F;
  }
}

/// Both products' first: a = silu(w1 x) (w3 x) of all assignments. Blocks share them in pieces of 32 rows of
/// w1 and as many of w3.
template <WeightFormat kRouted, int kStages>
__global__ void __launch_bounds__(kMaxThreads, 1) inner_kernel(const __grid_constant__ OneTokenParams p) {
  extern __shared__ __align__(1024) std::uint8_t rings[];
  __shared__ ScaledMagnitudes tables[kMagnitudeTables];
  const int num_groups = static_cast<int>(blockDim.x) / kGroupThreads;
  std::uint8_t* const x_columns = rings + num_groups * kStages * kGroupStageBytes;
  auto* const x_scales =
      reinterpret_cast<float*>(x_columns + padded_slices(p.width) * kFp8RowBlock * kProductColumns);
  const int row = row_in_piece();
  if (threadIdx.x < kMagnitudeTables) tables[threadIdx.x] = scaled_magnitudes(static_cast<int>(threadIdx.x));
  const auto prepare = [&] {
    quantise_x(p, x_columns, x_scales);
    ptx::fence_proxy_async();
    ptx::named_barrier_sync(kBlockBarrier, blockDim.x);
  };
  const auto x_scale = [&](int slice) { return make_float2(x_scales[slice], x_scales[slice]); };
  // Column 0 is the token's.
  const auto finish = [&](const float(&acc)[4], int assignment, int first_row, float routing_weight,
                          bool valid) {
    if (lane_index() % 4 != 0 || !valid) return;
    p.inner[static_cast<std::int64_t>(assignment) * p.inner_pitch() + first_row + row] =
        __bfloat16_as_ushort(activate(acc[0], acc[2], clamp_limit(p.swiglu_limit), routing_weight));
  };

  if (group_index() == kInnerGroups) {
    RowProduct<WeightFormat::kFp8, kStages> product(group_ring<kStages>(rings));
    const bool valid = row < kSharedPieceRows;
    const auto begin = [&](int first_row) {
      const int weight_row = first_row + min(row, kSharedPieceRows - 1);
      const auto weights = [&](const ExpertRows& matrix) {
        return expert_row<WeightFormat::kFp8>(matrix, 0, weight_row, p.width, valid);
      };
      product.begin({weights(p.shared_gate), weights(p.shared_up)}, p.width);
    };
    // Its weights are known before the ids are.
    // From the last block on, as routed pieces begin at the first: blocks have as much of both together.
    int first_row = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kSharedPieceRows;
    if (first_row < p.shared_inner_width) begin(first_row);
    ptx::wait_for_previous_kernel();
    ptx::launch_next_kernel();
    prepare();
    while (first_row < p.shared_inner_width) {
      float acc[4];
      product.multiply(tables, x_columns, kProductColumns, x_scale, acc);
      finish(acc, p.shared_assignment(), first_row, 1.0F, valid);
      first_row += static_cast<int>(gridDim.x) * kSharedPieceRows;
      if (first_row < p.shared_inner_width) begin(first_row);
    }
  } else {
    // In this order: the second kernel reads `ids`, which an earlier kernel writes, before it waits for this
    // one.
    ptx::wait_for_previous_kernel();
    ptx::launch_next_kernel();
    RowProduct<kRouted, kStages> product(group_ring<kStages>(rings));
    // Slots with an expert of this rank, four bits each: their pieces are spread over all blocks.
    std::uint64_t slots = 0;
    int num_slots = 0;
    for (int slot = 0; slot < p.num_selected; ++slot) {
      if (p.expert_of(slot) >= 0) slots |= static_cast<std::uint64_t>(slot) << (4 * num_slots++);
    }
    const int num_pieces = p.inner_width / kPieceRows, num_items = num_slots * num_pieces;
    const auto slot_of = [&](int i) { return static_cast<int>(slots >> (4 * (i / num_pieces)) & 15); };
    int item = group_index() * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
    int expert = 0;
    const auto begin = [&] {
      if (item >= num_items) return;
      expert = p.expert_of(slot_of(item));
      const int weight_row = item % num_pieces * kPieceRows + row;
      const int place = expert_place(p.places, expert);
      const auto weights = [&](const ExpertRows& matrix) {
        return expert_row<kRouted>(matrix, place, weight_row, p.width, true);
      };
      product.begin({weights(p.gate), weights(p.up)}, p.width);
    };
    begin();
    prepare();
    while (item < num_items) {
      const int assignment = slot_of(item);
      const float routing_weight = p.weights[assignment];
      float acc[4];
      product.multiply(tables, x_columns, kProductColumns, x_scale, acc);
      finish(acc, assignment, item % num_pieces * kPieceRows, routing_weight, true);
      item += static_cast<int>(gridDim.x) * kInnerGroups;
      begin();
    }
  }
}

/// The rows `inner` as codes in the products' order, a column each, and their scales [slice][column].
__device__ void quantise_inner(const OneTokenParams& p, std::uint8_t* columns, float* scales) {
  constexpr int kValues = 16;  // of a lane
  constexpr int kLanes = kFp8RowBlock / kValues;
  constexpr int kBlocksOfWarp = kWarpLanes / kLanes;
  const int padded = padded_slices(p.inner_pitch());
  const int num_warps = static_cast<int>(blockDim.x) / kWarpLanes;
  const int lane = lane_index() % kLanes;
  const int num_blocks = padded * kProductColumns;
#pragma unroll 2
  for (int first = warp_index() * kBlocksOfWarp; first < num_blocks; first += num_warps * kBlocksOfWarp) {
    const int block =
        first + lane_index() / kLanes;  // kProductColumns is a multiple of kBlocksOfWarp: within
    const int slice = block / kProductColumns, column = block % kProductColumns;
    const int width = column < p.shared_assignment() ? p.inner_width : p.shared_inner_width;
    const bool inside = slice < width / kFp8RowBlock && column < p.num_assignments();
    const Bf16Bits* from = p.inner + static_cast<std::int64_t>(inside ? column : 0) * p.inner_pitch() +
                           (inside ? slice : 0) * kFp8RowBlock + kValues * lane;
    float values[kValues];
#pragma unroll
    for (int i = 0; i < kValues / 8; ++i) {
      unpack_bf16(*reinterpret_cast<const uint4*>(from + 8 * i),
                  reinterpret_cast<float(&)[8]>(values[8 * i]));
    }
    const Fp8Piece<kValues> piece = quantise_fp8_block(values);
#pragma unroll
    for (int i = 0; i < kValues / 4; ++i) {
      store_column_word(columns, slice, column, lane * (kValues / 4) + i, inside ? piece.codes[i] : 0);
    }
    if (lane == 0) scales[slice * kProductColumns + column] = inside ? piece.scale : 0.0F;
  }
}

/// Assignments that there are, in ascending expert, then slot; one warp's work.
__device__ void order_assignments(const OneTokenParams& p, int* order, int* count) {
  const int lane = lane_index();
  constexpr int kNone = -1;
  const int id = lane < p.num_selected ? p.expert_of(lane) : kNone;
  int place = 0;
  for (int other = 0; other < p.num_selected; ++other) {
    const int other_id = __shfl_sync(kAllLanes, id, other);
    if (other_id >= 0 && (other_id < id || (other_id == id && other < lane))) ++place;
  }
  if (id >= 0) order[place] = lane;
  const int assignments = __popc(__ballot_sync(kAllLanes, id >= 0));
  if (lane == 0) {
    *count = assignments + (p.has_shared ? 1 : 0);
    if (p.has_shared) order[assignments] = p.shared_assignment();
  }
}

/// The other: y = w2 a of all assignments, and their sum. A block has 32 columns of `out`; warpgroup w of it
/// the rows of assignments 2 w and 2 w + 1, the last one the shared expert's.
template <WeightFormat kRouted, int kStages>
__global__ void __launch_bounds__(kMaxThreads, 1) down_kernel(const __grid_constant__ OneTokenParams p) {
  extern __shared__ __align__(1024) std::uint8_t rings[];
  __shared__ ScaledMagnitudes tables[kMagnitudeTables];
  __shared__ float y[kProductColumns][kPieceRows];
  __shared__ int order[kProductColumns];
  __shared__ int num_assignments;
  const int num_groups = static_cast<int>(blockDim.x) / kGroupThreads;
  std::uint8_t* const columns = rings + num_groups * kStages * kGroupStageBytes;
  auto* const scales =
      reinterpret_cast<float*>(columns + padded_slices(p.inner_pitch()) * kFp8RowBlock * kProductColumns);
  const int first_row = static_cast<int>(blockIdx.x) * kPieceRows, row = row_in_piece();
  if (threadIdx.x < kMagnitudeTables) tables[threadIdx.x] = scaled_magnitudes(static_cast<int>(threadIdx.x));
  if (warp_index() == 0) order_assignments(p, order, &num_assignments);

  const int own_columns = lane_index() % 4 * 2;  // of the sums
  const auto multiply = [&](auto& product, bool rounds) {
    ptx::wait_for_previous_kernel();
    ptx::launch_next_kernel();
    quantise_inner(p, columns, scales);
    ptx::fence_proxy_async();
    ptx::named_barrier_sync(kBlockBarrier, blockDim.x);
    float acc[4];
    product.multiply(
        tables, columns, kProductColumns,
        [&](int slice) {
          return *reinterpret_cast<const float2*>(scales + slice * kProductColumns + own_columns);
        },
        acc);
    // Half h is of assignment 2 w + h, which is a column of the same number.
    if (own_columns == 2 * group_index()) {
      y[own_columns][row] = rounds ? to_bf16_and_back(acc[0]) : acc[0];
      y[own_columns + 1][row] = rounds ? to_bf16_and_back(acc[3]) : acc[3];
    }
  };
  if (group_index() == p.num_pairs()) {
    RowProduct<WeightFormat::kFp8, kStages> product(group_ring<kStages>(rings));
    const auto weights = [&](bool valid) {
      return expert_row<WeightFormat::kFp8>(p.shared_down, 0, first_row + row, p.shared_inner_width, valid);
    };
    product.begin({weights(true), weights(false)}, p.shared_inner_width);
    multiply(product, p.rounds_shared);
  } else {
    RowProduct<kRouted, kStages> product(group_ring<kStages>(rings));
    const auto weights = [&](int assignment) {
      const int expert = assignment < p.num_selected ? p.expert_of(assignment) : -1;
      return expert_row<kRouted>(p.down, expert_place(p.places, max(expert, 0)), first_row + row,
                                 p.inner_width, expert >= 0);
    };
    product.begin({weights(2 * group_index()), weights(2 * group_index() + 1)}, p.inner_width);
    multiply(product, p.rounds_routed);
  }
  __syncthreads();
  if (threadIdx.x >= kPieceRows) return;
  float sum = 0.0F;
  for (int i = 0; i < num_assignments; ++i) sum += y[order[i]][threadIdx.x];
  const int column = first_row + static_cast<int>(threadIdx.x);
  if (p.out != nullptr) {
    p.out[column] = __bfloat16_as_ushort(__float2bfloat16_rn(sum));
  } else {
    p.sums[column] = sum;
  }
}

ExpertRows describe(std::span<const ExpertWeights> experts, WeightMatrix ExpertWeights::*which) {
  const WeightMatrix& first = experts[0].*which;
  const bool fp4 = first.format == WeightFormat::kFp4;
  return {.codes = reinterpret_cast<const std::uint8_t*>(first.data),
          .scales = fp4 ? static_cast<const void*>(first.group_scales) : first.block_scales,
          .code_distance = expert_distance(experts, which),
          .scale_distance = expert_scale_distance(experts, which)};
}

template <WeightFormat kRouted, int kStages>
void launch_both(const OneTokenParams& p, CudaContext& context) {
  const int shared_groups = p.has_shared ? 1 : 0;
  const auto rings = [](int groups) { return groups * kStages * kGroupStageBytes; };
  // Every block the same number of pieces.
  const int pieces = p.num_selected * (p.inner_width / kPieceRows) +
                     shared_groups * (p.shared_inner_width / kSharedPieceRows);
  const int of_block = (pieces + context.num_sms - 1) / context.num_sms;
  const int inner_groups = kInnerGroups + shared_groups;
  launch_kernel(
      "multiplying a token's experts, w1 and w3", inner_kernel<kRouted, kStages>,
      {.grid = dim3(static_cast<unsigned>((pieces + of_block - 1) / of_block)),
       .threads = inner_groups * kGroupThreads,
       .shared_bytes = rings(inner_groups) + padded_slices(p.width) * (kFp8RowBlock * kProductColumns +
                                                                       static_cast<int>(sizeof(float)))},
      context.stream, p);
  const int down_groups = p.num_pairs() + shared_groups;
  launch_kernel("multiplying a token's experts, w2", down_kernel<kRouted, kStages>,
                {.grid = dim3(static_cast<unsigned>(p.width / kPieceRows)),
                 .threads = down_groups * kGroupThreads,
                 .shared_bytes = rings(down_groups) + padded_slices(p.inner_pitch()) * kProductColumns *
                                                          (kFp8RowBlock + static_cast<int>(sizeof(float)))},
                context.stream, p);
}

}  // namespace

bool one_token_experts_fit(std::int64_t num_selected, bool has_shared) {
  return (num_selected + 1) / 2 + (has_shared ? 1 : 0) <= kMaxGroups;
}

std::int64_t one_token_inner_values(std::int64_t num_selected, std::int64_t inner_width) {
  return (num_selected + 2) * inner_width;
}

void one_token_experts(const ExpertsArgs& args, const std::int32_t* places, Bf16Bits* inner,
                       CudaContext& context) {
  using E = ExpertWeights;
  const ExpertWeights& first = args.routed[0];
  const auto routed = [&](WeightMatrix E::*which) { return describe(args.routed, which); };
  const auto shared = [&](WeightMatrix E::*which) {
    return args.shared != nullptr ? describe({args.shared, 1}, which) : ExpertRows{};
  };
  const OneTokenParams params{.gate = routed(&E::w1),
                              .up = routed(&E::w3),
                              .down = routed(&E::w2),
                              .places = places,
                              .shared_gate = shared(&E::w1),
                              .shared_up = shared(&E::w3),
                              .shared_down = shared(&E::w2),
                              .ids = args.ids.data(),
                              .weights = args.weights.data(),
                              .x = args.x.bf16().data(),
                              .x_fp8 = args.x_fp8,
                              .inner = inner,
                              .out = args.partial_sums ? nullptr : args.out.bf16().data(),
                              .sums = args.partial_sums ? args.out.data() : nullptr,
                              .width = static_cast<std::int32_t>(first.w1.cols),
                              .inner_width = static_cast<std::int32_t>(first.w1.rows),
                              .shared_inner_width = static_cast<std::int32_t>(
                                  args.shared != nullptr ? args.shared->w1.rows : first.w1.rows),
                              .rounds_routed = !args.routed_is_split,
                              .rounds_shared = !args.shared_is_split,
                              .num_selected = static_cast<std::int32_t>(args.ids.extent(1)),
                              .first_expert = static_cast<std::int32_t>(args.first_expert),
                              .num_experts = static_cast<std::int32_t>(args.routed.size()),
                              .has_shared = args.shared != nullptr,
                              .swiglu_limit = args.swiglu_limit};
  constexpr int kStages = 3, kStagesWithoutShared = 4;
  const bool fp4 = first.w1.format == WeightFormat::kFp4;
  const auto launch =
      args.shared != nullptr
          ? (fp4 ? launch_both<WeightFormat::kFp4, kStages> : launch_both<WeightFormat::kFp8, kStages>)
          : (fp4 ? launch_both<WeightFormat::kFp4, kStagesWithoutShared>
                 : launch_both<WeightFormat::kFp8, kStagesWithoutShared>);
  launch(params, context);
}

}  // namespace baleen::sm90
