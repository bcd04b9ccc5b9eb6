#include "ops/experts/sm90/expert_four_tokens.h"

#include <algorithm>

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/scale_group.cuh"
#include "ops/experts/cuda/expert_activation.cuh"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/cuda/expert_rows.h"
#include "ops/experts/cuda/expert_weights.h"
#include "ops/experts/sm90/expert_row_product.cuh"
#include "tensor/fp8_rows.h"

namespace baleen::sm90 {
namespace {

constexpr int kMaxGroups = 4;
constexpr int kMaxThreads = kMaxGroups * kGroupThreads;
constexpr int kMaxSlots = kWarpLanes;  // a lane each
constexpr int kMaxAssignments = kMaxSlots + static_cast<int>(kMaxStreamedTokens);
constexpr int kMaxSlotsTogether =
    kProductColumns / 2;  // of one expert: a warpgroup takes two experts at once
static_assert(kMaxStreamedTokens <= kMaxSlotsTogether);

// Of the whole block, which meets from both sides of a branch.
constexpr std::uint32_t kBlockBarrier = 1;

// A block of the first kernel has that many groups for routed experts and one more for the shared one, whose
// pieces have rows (of w1 and w3 each) for the bytes of a routed one's in FP4.
constexpr int kInnerGroups = 3;
constexpr int kSharedPieceRows = 16;

struct FourTokenParams {
  ExpertRows gate, up, down;   ///< matrices of the routed experts
  const std::int32_t* places;  ///< theirs; null: expert e is at place e
  ExpertRows shared_gate, shared_up, shared_down;
  const std::int32_t* ids;
  const float* weights;
  const Bf16Bits* x;
  Fp8Rows x_fp8;
  bool x_is_settled;  ///< x is there before the first kernel's wait
  Bf16Bits* inner;    ///< [assignments, inner_pitch]: a of every slot, then of the shared expert
  Bf16Bits* out;      ///< null: the sums go to `sums`
  float* sums;        ///< partial, in float32
  std::int32_t width;
  std::int32_t inner_width;           ///< width of routed experts
  std::int32_t shared_inner_width;    ///< another where only one of them is split over ranks
  bool rounds_routed, rounds_shared;  ///< y, before it is added
  std::int32_t num_tokens;
  std::int32_t num_selected;
  std::int32_t first_expert;  ///< first that this rank has; experts are counted from it
  std::int32_t num_experts;   ///< how many this rank has
  bool has_shared;
  float swiglu_limit;

  /// -1: padding, or an expert of another rank. Past the first-level cache: the second kernel reads before it
  /// waits.
  [[nodiscard]] __device__ int expert_of(int slot) const {
    const std::int32_t id = __ldcg(ids + slot), expert = id - first_expert;
    return id >= 0 && expert >= 0 && expert < num_experts ? expert : -1;
  }
  [[nodiscard]] __host__ __device__ int num_slots() const { return num_tokens * num_selected; }
  [[nodiscard]] __host__ __device__ int inner_pitch() const {
    return inner_width > shared_inner_width ? inner_width : shared_inner_width;
  }
};

/// Slices of a row of `num_values`, up to a whole stage of FP4.
__host__ __device__ constexpr int padded_slices(int num_values) {
  return (num_values / kActivationGroup + 1) / 2 * 2;
}

/// Activations of one kernel in shared memory: codes of `num_columns` columns in the products' order, which
/// instructions read eight columns at a time from any one on, and their scales [slice][column].
struct ColumnMemory {
  std::uint8_t* codes;
  float* scales;
  int num_columns;

  __device__ ColumnMemory(std::uint8_t* memory, int slices, int columns)
      : codes(memory),
        scales(reinterpret_cast<float*>(memory + code_bytes(slices, columns))),
        num_columns(columns) {}

  // Behind the last column there is room for the seven more that an instruction reads.
  __host__ __device__ static constexpr int code_bytes(int slices, int columns) {
    return (slices * kSliceChunks * columns + kProductColumns) * kChunkBytes;
  }
  __host__ __device__ static constexpr int bytes(int slices, int columns) {
    return code_bytes(slices, columns) +
           (slices * columns + kProductColumns) * static_cast<int>(sizeof(float));
  }

  /// Word `source` of a slice of a column to its place.
  __device__ void store(int slice, int column, int source, std::uint32_t word) const {
    constexpr int kChunkWords = kChunkBytes / 4;
    const int to = product_word(source);
    std::uint8_t* const chunk =
        codes + kChunkBytes * ((slice * kSliceChunks + to / kChunkWords) * num_columns + column);
    reinterpret_cast<std::uint32_t*>(chunk)[to % kChunkWords] = word;
  }
  /// The products of columns from `first` on.
  template <class Product>
  __device__ void multiply(Product& product, const ScaledMagnitudes* tables, int first,
                           float (&acc)[4]) const {
    const float* const own = scales + first + threadIdx.x % 4 * 2;
    product.multiply(
        tables, codes + kChunkBytes * first, num_columns,
        [&](int slice) { return make_float2(own[slice * num_columns], own[slice * num_columns + 1]); }, acc);
  }
};

__device__ int warp_index() { return static_cast<int>(threadIdx.x) / kWarpLanes; }
__device__ int lane_index() { return static_cast<int>(threadIdx.x) % kWarpLanes; }
__device__ int group_index() { return static_cast<int>(threadIdx.x) / kGroupThreads; }
__device__ int num_groups() { return static_cast<int>(blockDim.x) / kGroupThreads; }
/// Row of either half that is this thread's.
__device__ int row_in_piece() {
  return static_cast<int>(threadIdx.x) % kGroupThreads / kWarpLanes * 8 + lane_index() / 4;
}

template <int kStages>
__device__ std::uint8_t* group_ring(std::uint8_t* rings) {
  return rings + group_index() * kStages * kGroupStageBytes;
}

/// What a warp knows of the experts that tokens have: lane s of slot s. An expert with more slots than an
/// instruction has columns for, because tokens have it twice, counts as several.
class ChosenExperts {
 public:
  __device__ explicit ChosenExperts(const FourTokenParams& p) {
    expert_ = lane_index() < p.num_slots() ? p.expert_of(lane_index()) : -1;
    slots_ = __match_any_sync(kAllLanes, expert_);
    if (__any_sync(kAllLanes, expert_ >= 0 && __popc(slots_) > kMaxSlotsTogether)) {
      const int before = __popc(slots_ & ((1U << lane_index()) - 1));
      slots_ = __match_any_sync(kAllLanes, expert_ * kMaxSlots + before / kMaxSlotsTogether);
    }
    firsts_ = __ballot_sync(kAllLanes, expert_ >= 0 && lane_index() == __ffs(slots_) - 1);
  }

  struct Expert {
    int expert;           ///< number among this rank's
    std::uint32_t slots;  ///< that have it; none: there is no such expert
  };
  [[nodiscard]] __device__ int count() const { return __popc(firsts_); }
  /// Expert `index` of `count`, in the order of their first slots; the same index for the whole warp.
  [[nodiscard]] __device__ Expert at(int index) const {
    std::uint32_t left = firsts_;
    for (int i = 0; i < index; ++i) left &= left - 1;
    const int slot = max(__ffs(left) - 1, 0);
    const int expert = __shfl_sync(kAllLanes, expert_, slot);
    const std::uint32_t slots = __shfl_sync(kAllLanes, slots_, slot);
    return left != 0 ? Expert{expert, slots} : Expert{0, 0};
  }
  /// Of this lane's slot; -1: none.
  [[nodiscard]] __device__ int expert() const { return expert_; }
  /// Assignments of experts before `index`.
  [[nodiscard]] __device__ int assignments_before(int index) const {
    int sum = 0;
    std::uint32_t left = firsts_;
    for (int i = 0; i < index && left != 0; ++i) {
      sum += __popc(__shfl_sync(kAllLanes, slots_, __ffs(left) - 1));
      left &= left - 1;
    }
    return sum;
  }
  /// All of this rank.
  [[nodiscard]] __device__ int assignments() const { return __popc(__ballot_sync(kAllLanes, expert_ >= 0)); }
  /// The place of this lane's slot where experts come in that order and an expert's slots in ascending order.
  [[nodiscard]] __device__ int place() const {
    const std::uint32_t before = (1U << lane_index()) - 1;
    int place = __popc(slots_ & before);
    for (std::uint32_t left = firsts_ & ((1U << (__ffs(slots_) - 1)) - 1); __any_sync(kAllLanes, left != 0);
         left &= left - 1) {
      const int slot = left != 0 ? __ffs(left) - 1 : 0;
      const std::uint32_t others = __shfl_sync(kAllLanes, slots_, slot);
      if (left != 0) place += __popc(others);
    }
    return place;
  }

 private:
  int expert_;
  std::uint32_t slots_;   ///< that have this lane's expert, in one of its parts
  std::uint32_t firsts_;  ///< the first slot that each expert, or part, has
};

/// Which items are a group's: groups of all blocks take them in turn. In the first round the last group,
/// where there is a shared expert, has that expert's.
class Turns {
 public:
  __device__ Turns(int block, int num_blocks, bool has_shared)
      : num_blocks_(num_blocks),
        shared_begin_(has_shared ? (num_groups() - 1) * num_blocks : INT32_MAX),
        position_(group_index() * num_blocks + block) {}
  __device__ bool is_shared() const {
    return position_ >= shared_begin_ && position_ < shared_begin_ + num_blocks_;
  }
  __device__ int item() const { return position_ < shared_begin_ ? position_ : position_ - num_blocks_; }
  __device__ void next() { position_ += num_groups() * num_blocks_; }

 private:
  int num_blocks_, shared_begin_, position_;
};

/// x as codes in the products' order, a column for each token. Past the first-level cache: perhaps before the
/// wait.
__device__ void quantise_x(const FourTokenParams& p, const ColumnMemory& columns) {
  const int num_slices = p.width / kActivationGroup, padded = padded_slices(p.width);
  const int num_warps = static_cast<int>(blockDim.x) / kWarpLanes, lane = lane_index();
#pragma unroll 4
  for (int item = warp_index(); item < padded * p.num_tokens; item += num_warps) {
    const int token = item / padded, slice = item % padded;
    const std::int64_t column = min(slice, num_slices - 1) * kActivationGroup + 4 * lane;
    std::uint32_t codes;
    float scale;
    if (p.x_fp8.codes != nullptr) {
      codes = __ldcg(reinterpret_cast<const std::uint32_t*>(p.x_fp8.codes + token * p.width + column));
      scale = __ldcg(p.x_fp8.scales + column / kActivationGroup * p.x_fp8.scale_stride + token);
    } else {
      const uint2 words = __ldcg(reinterpret_cast<const uint2*>(p.x + token * p.width + column));
      float values[4];
      unpack_bf16(words, values);
      const Fp8Piece<4> piece = quantise_fp8_group(values);
      codes = piece.codes[0];
      scale = piece.scale;
    }
    columns.store(slice, token, lane, slice < num_slices ? codes : 0);
    if (lane == 0) columns.scales[slice * columns.num_columns + token] = slice < num_slices ? scale : 0.0F;
  }
}

/// Both products' first: a = silu(w1 x) (w3 x) of all assignments. Blocks share them in pieces of 32 rows of
/// w1 and as many of w3.
template <WeightFormat kRouted, int kStages>
__global__ void __launch_bounds__(kMaxThreads, 1)
    inner_kernel(const __grid_constant__ FourTokenParams p, NextBehindWait order) {
  extern __shared__ __align__(1024) std::uint8_t rings[];
  __shared__ ScaledMagnitudes tables[kMagnitudeTables];
  __shared__ float routing_weights[kMaxSlots];
  const ColumnMemory columns(rings + num_groups() * kStages * kGroupStageBytes, padded_slices(p.width),
                             kProductColumns);
  const int row = row_in_piece(), grid = static_cast<int>(gridDim.x);
  if (threadIdx.x < kMagnitudeTables) tables[threadIdx.x] = scaled_magnitudes(static_cast<int>(threadIdx.x));
  const auto wait = [&] {
    if (p.x_is_settled) quantise_x(p, columns);
    order.wait().launch_next();
  };
  const auto prepare = [&] {
    if (static_cast<int>(threadIdx.x) < p.num_slots()) routing_weights[threadIdx.x] = p.weights[threadIdx.x];
    if (!p.x_is_settled) quantise_x(p, columns);
    ptx::fence_proxy_async();
    ptx::named_barrier_sync(kBlockBarrier, blockDim.x);
  };
  // `sums`: of this thread's row of w1 and of w3, for two tokens each.
  const auto store = [&](const float(&sums)[4], int i, int assignment, int first_row, float routing_weight) {
    p.inner[static_cast<std::int64_t>(assignment) * p.inner_pitch() + first_row + row] =
        activate(sums[i], sums[2 + i], clamp_limit(p.swiglu_limit), routing_weight);
  };
  const int first_token = lane_index() % 4 * 2;
  Turns turns(static_cast<int>(blockIdx.x), grid, p.has_shared);

  const bool begins_shared = turns.is_shared();
  if (begins_shared) {
    RowProduct<WeightFormat::kFp8, kStages> product(group_ring<kStages>(rings));
    const bool valid = row < kSharedPieceRows;
    const auto begin = [&](int first_row) {
      const int weight_row = first_row + min(row, kSharedPieceRows - 1);
      const auto weights = [&](const ExpertRows& matrix) {
        return expert_row<WeightFormat::kFp8>(matrix, 0, weight_row, p.width, valid);
      };
      product.begin({weights(p.shared_gate), weights(p.shared_up)}, p.width);
    };
    // Its weights are known before the ids are. From the last block on, as routed pieces begin at the first:
    // so blocks have as much of both together.
    int first_row = (grid - 1 - static_cast<int>(blockIdx.x)) * kSharedPieceRows;
    if (first_row < p.shared_inner_width) begin(first_row);
    wait();
    prepare();
    while (first_row < p.shared_inner_width) {
      float acc[4];
      columns.multiply(product, tables, 0, acc);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (valid && first_token + i < p.num_tokens)
          store(acc, i, p.num_slots() + first_token + i, first_row, 1.0F);
      }
      first_row += grid * kSharedPieceRows;
      if (first_row < p.shared_inner_width) begin(first_row);
    }
    turns.next();
  } else {
    wait();
  }
  const ChosenExperts chosen(p);
  RowProduct<kRouted, kStages> product(group_ring<kStages>(rings));
  const int num_pieces = p.inner_width / kPieceRows, num_items = chosen.count() * num_pieces;
  std::uint32_t slots = 0;  // of the item's expert
  const auto begin = [&] {
    if (turns.item() >= num_items) return;
    const ChosenExperts::Expert expert = chosen.at(turns.item() / num_pieces);
    slots = expert.slots;
    const int weight_row = turns.item() % num_pieces * kPieceRows + row;
    const int place = expert_place(p.places, expert.expert);
    const auto weights = [&](const ExpertRows& matrix) {
      return expert_row<kRouted>(matrix, place, weight_row, p.width, true);
    };
    product.begin({weights(p.gate), weights(p.up)}, p.width);
  };
  begin();
  if (!begins_shared) prepare();
  while (turns.item() < num_items) {
    float acc[4];
    columns.multiply(product, tables, 0, acc);
    for (std::uint32_t left = slots; left != 0; left &= left - 1) {
      const int slot = __ffs(left) - 1, token = slot / p.num_selected;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (token == first_token + i)
          store(acc, i, slot, turns.item() % num_pieces * kPieceRows, routing_weights[slot]);
      }
    }
    turns.next();
    begin();
  }
}

/// A block of the second kernel's view of the assignments: columns in the order of `ChosenExperts::place`,
/// then the shared expert's, one for each token.
struct DownPlan {
  int assignment_of[kMaxAssignments];  ///< a row of `inner`
  int order[kMaxSlots];                ///< columns of each token, by ascending expert
  int count[kMaxStreamedTokens];       ///< how many columns each token has
};

/// One warp's work.
__device__ void plan_columns(const FourTokenParams& p, const ChosenExperts& chosen, DownPlan& plan) {
  const int lane = lane_index(), column = chosen.place(), num_routed = chosen.assignments();
  const int token = lane / p.num_selected, first_slot = token * p.num_selected;
  int place = 0;
  for (int i = 0; i < p.num_selected; ++i) {
    const int other = __shfl_sync(kAllLanes, chosen.expert(), (first_slot + i) % kWarpLanes);
    if (other >= 0 && (other < chosen.expert() || (other == chosen.expert() && first_slot + i < lane)))
      ++place;
  }
  if (lane < static_cast<int>(kMaxStreamedTokens)) {
    plan.count[lane] = 0;
    if (p.has_shared && lane < p.num_tokens) plan.assignment_of[num_routed + lane] = p.num_slots() + lane;
  }
  __syncwarp();
  if (chosen.expert() < 0) return;
  plan.assignment_of[column] = lane;
  plan.order[first_slot + place] = column;
  atomicAdd(&plan.count[token], 1);
}

/// Rows of `inner` as codes in the products' order, a column each.
__device__ void quantise_inner(const FourTokenParams& p, const DownPlan& plan, int num_routed,
                               int num_assignments, const ColumnMemory& columns) {
  constexpr int kValues = 16;  // of a lane
  constexpr int kLanes = kActivationGroup / kValues;
  constexpr int kGroupsOfWarp = kWarpLanes / kLanes;
  const int padded = padded_slices(p.inner_pitch());
  const int num_warps = static_cast<int>(blockDim.x) / kWarpLanes;
  const int lane = lane_index() % kLanes, num_scale_groups = padded * num_assignments;
#pragma unroll 2
  for (int first = warp_index() * kGroupsOfWarp; first < num_scale_groups;
       first += num_warps * kGroupsOfWarp) {
    // Beyond the last one that again, with the same result.
    const int scale_group = min(first + lane_index() / kLanes, num_scale_groups - 1);
    const int slice = scale_group / num_assignments, column = scale_group % num_assignments;
    const int width = column < num_routed ? p.inner_width : p.shared_inner_width;
    const bool inside = slice < width / kActivationGroup;
    const Bf16Bits* from = p.inner + static_cast<std::int64_t>(plan.assignment_of[column]) * p.inner_pitch() +
                           (inside ? slice : 0) * kActivationGroup + kValues * lane;
    float values[kValues];
#pragma unroll
    for (int i = 0; i < kValues / 8; ++i) {
      unpack_bf16(*reinterpret_cast<const uint4*>(from + 8 * i),
                  reinterpret_cast<float(&)[8]>(values[8 * i]));
    }
    const Fp8Piece<kValues> piece = quantise_fp8_group(values);
#pragma unroll
    for (int i = 0; i < kValues / 4; ++i)
      columns.store(slice, column, lane * (kValues / 4) + i, inside ? piece.codes[i] : 0);
    if (lane == 0) columns.scales[slice * columns.num_columns + column] = inside ? piece.scale : 0.0F;
  }
}

/// Columns that the second kernel's shared memory has room for.
__host__ __device__ int max_columns(const FourTokenParams& p) {
  return p.num_slots() + (p.has_shared ? p.num_tokens : 0);
}

/// The other: y = w2 a of all assignments, and their sums. Reads `ids` before its wait. A block has 32
/// columns of `out`; a warpgroup takes the rows of two experts at a time, the last one the shared expert's
/// first.
template <WeightFormat kRouted, int kStages>
__global__ void __launch_bounds__(kMaxThreads, 1)
    down_kernel(const __grid_constant__ FourTokenParams p, NextBehindWait order) {
  extern __shared__ __align__(1024) std::uint8_t rings[];
  __shared__ ScaledMagnitudes tables[kMagnitudeTables];
  __shared__ float y[kMaxAssignments][kPieceRows];
  __shared__ DownPlan plan;
  const ColumnMemory columns(rings + num_groups() * kStages * kGroupStageBytes,
                             padded_slices(p.inner_pitch()), max_columns(p));
  const int first_row = static_cast<int>(blockIdx.x) * kPieceRows, row = row_in_piece();
  if (threadIdx.x < kMagnitudeTables) tables[threadIdx.x] = scaled_magnitudes(static_cast<int>(threadIdx.x));
  const ChosenExperts chosen(p);
  const int num_routed = chosen.assignments();

  const auto prepare = [&] {
    if (warp_index() == 0) plan_columns(p, chosen, plan);
    ptx::named_barrier_sync(kBlockBarrier, blockDim.x);
    order.wait().launch_next();
    quantise_inner(p, plan, num_routed, num_routed + (p.has_shared ? p.num_tokens : 0), columns);
    ptx::fence_proxy_async();
    ptx::named_barrier_sync(kBlockBarrier, blockDim.x);
  };
  // Columns from `first` on: `of_first` of the rows of half 0, then those of half 1.
  const auto multiply = [&](auto& product, int first, int of_first, int count, bool rounds) {
    float acc[4];
    columns.multiply(product, tables, first, acc);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = lane_index() % 4 * 2 + i;
      const float value = column < of_first ? acc[i] : acc[2 + i];
      if (column < count) y[first + column][row] = rounds ? rounded_to_bf16(value) : value;
    }
  };
  Turns turns(0, 1, p.has_shared);
  const bool begins_shared = turns.is_shared();
  if (begins_shared) {
    RowProduct<WeightFormat::kFp8, kStages> product(group_ring<kStages>(rings));
    const auto weights = [&](bool valid) {
      return expert_row<WeightFormat::kFp8>(p.shared_down, 0, first_row + row, p.shared_inner_width, valid);
    };
    product.begin({weights(true), weights(false)}, p.shared_inner_width);
    prepare();
    multiply(product, num_routed, p.num_tokens, p.num_tokens, p.rounds_shared);
    turns.next();
  }
  RowProduct<kRouted, kStages> product(group_ring<kStages>(rings));
  int of_half[2] = {0, 0};
  const auto begin = [&] {
    if (2 * turns.item() >= chosen.count()) return;
    const auto weights = [&](int half) {
      const ChosenExperts::Expert expert = chosen.at(2 * turns.item() + half);
      of_half[half] = __popc(expert.slots);
      return expert_row<kRouted>(p.down, expert_place(p.places, expert.expert), first_row + row,
                                 p.inner_width, expert.slots != 0);
    };
    product.begin({weights(0), weights(1)}, p.inner_width);
  };
  begin();
  if (!begins_shared) prepare();
  while (2 * turns.item() < chosen.count()) {
    multiply(product, chosen.assignments_before(2 * turns.item()), of_half[0], of_half[0] + of_half[1],
             p.rounds_routed);
    turns.next();
    begin();
  }
  __syncthreads();
  const int token = static_cast<int>(threadIdx.x) / kPieceRows,
            in_piece = static_cast<int>(threadIdx.x) % kPieceRows;
  if (token >= p.num_tokens) return;
  float sum = 0.0F;
  for (int i = 0; i < plan.count[token]; ++i) sum += y[plan.order[token * p.num_selected + i]][in_piece];
  if (p.has_shared) sum += y[num_routed + token][in_piece];
  const std::int64_t at = static_cast<std::int64_t>(token) * p.width + first_row + in_piece;
  if (p.out != nullptr) {
    p.out[at] = bf16_bits(sum);
  } else {
    p.sums[at] = sum;
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

constexpr int kStages = 3, kStagesWithoutShared = 4;
constexpr int ring_bytes(int groups, int stages) { return groups * stages * kGroupStageBytes; }

template <WeightFormat kRouted, int kStages>
void launch_both(const FourTokenParams& p, CudaContext& context) {
  const int shared_groups = p.has_shared ? 1 : 0;
  // Every block the same number of pieces.
  const int pieces = p.num_slots() * (p.inner_width / kPieceRows) +
                     shared_groups * (p.shared_inner_width / kSharedPieceRows);
  const int of_block = (pieces + context.num_sms - 1) / context.num_sms;
  const int inner_groups = kInnerGroups + shared_groups;
  launch_kernel("multiplying few tokens' experts, w1 and w3", inner_kernel<kRouted, kStages>,
                {.grid = dim3(static_cast<unsigned>((pieces + of_block - 1) / of_block)),
                 .threads = inner_groups * kGroupThreads,
                 .shared_bytes = ring_bytes(inner_groups, kStages) +
                                 ColumnMemory::bytes(padded_slices(p.width), kProductColumns)},
                context.stream, p);
  context.stream.expect_earlier_operations_done();
  const int pairs = (std::min(p.num_slots(), p.num_experts) + 1) / 2;
  const int down_groups = std::min(pairs + shared_groups, kMaxGroups);
  launch_kernel("multiplying few tokens' experts, w2", down_kernel<kRouted, kStages>,
                {.grid = dim3(static_cast<unsigned>(p.width / kPieceRows)),
                 .threads = down_groups * kGroupThreads,
                 .shared_bytes = ring_bytes(down_groups, kStages) +
                                 ColumnMemory::bytes(padded_slices(p.inner_pitch()), max_columns(p))},
                context.stream, p);
}

}  // namespace

bool four_token_experts_fit(std::int64_t num_tokens, std::int64_t num_selected, std::int64_t width,
                            std::int64_t inner_width) {
  constexpr std::int64_t kMaxSharedBytes = 220 * 1024;  // beside 6 KB of static ones
  constexpr int kRings =
      std::max(ring_bytes(kMaxGroups, kStages), ring_bytes(kMaxGroups, kStagesWithoutShared));
  const auto bytes = [](std::int64_t inputs, std::int64_t columns) {
    return kRings + ColumnMemory::bytes(padded_slices(static_cast<int>(inputs)), static_cast<int>(columns));
  };
  return num_tokens <= kMaxStreamedTokens && num_tokens * num_selected <= kMaxSlots &&
         bytes(width, kProductColumns) <= kMaxSharedBytes &&
         bytes(inner_width, num_tokens * (num_selected + 1)) <= kMaxSharedBytes;
}

std::int64_t four_token_inner_values(std::int64_t num_tokens, std::int64_t num_selected,
                                     std::int64_t inner_width) {
  return num_tokens * (num_selected + 1) * inner_width;
}

void four_token_experts(const ExpertsArgs& args, const std::int32_t* places, Bf16Bits* inner,
                        CudaContext& context) {
  using E = ExpertWeights;
  const ExpertWeights& first = args.routed[0];
  const auto routed = [&](WeightMatrix E::*which) { return describe(args.routed, which); };
  const auto shared = [&](WeightMatrix E::*which) {
    return args.shared != nullptr ? describe({args.shared, 1}, which) : ExpertRows{};
  };
  const FourTokenParams params{.gate = routed(&E::w1),
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
                               .x_is_settled = context.stream.is_settled(Accesses().read(args.x).read(
                                   args.x_fp8, args.x.extent(0), args.x.extent(1))),
                               .inner = inner,
                               .out = args.partial_sums ? nullptr : args.out.bf16().data(),
                               .sums = args.partial_sums ? args.out.data() : nullptr,
                               .width = static_cast<std::int32_t>(first.w1.cols),
                               .inner_width = static_cast<std::int32_t>(first.w1.rows),
                               .shared_inner_width = static_cast<std::int32_t>(
                                   args.shared != nullptr ? args.shared->w1.rows : first.w1.rows),
                               .rounds_routed = !args.split.routed,
                               .rounds_shared = !args.split.shared,
                               .num_tokens = static_cast<std::int32_t>(args.x.extent(0)),
                               .num_selected = static_cast<std::int32_t>(args.ids.extent(1)),
                               .first_expert = static_cast<std::int32_t>(args.first_expert),
                               .num_experts = static_cast<std::int32_t>(args.routed.size()),
                               .has_shared = args.shared != nullptr,
                               .swiglu_limit = args.swiglu_limit};
  const bool fp4 = first.w1.format == WeightFormat::kFp4;
  const auto launch =
      args.shared != nullptr
          ? (fp4 ? launch_both<WeightFormat::kFp4, kStages> : launch_both<WeightFormat::kFp8, kStages>)
          : (fp4 ? launch_both<WeightFormat::kFp4, kStagesWithoutShared>
                 : launch_both<WeightFormat::kFp8, kStagesWithoutShared>);
  launch(params, context);
}

}  // namespace baleen::sm90
