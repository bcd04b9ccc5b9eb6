// Experts in the stated order, one token: w1 and w3 with the activation in one launch, w2 and the sums in
// another. What a call waits for is its weights, so all multiprocessors have as many bytes of them, and every
// warp has loads under way at all times: it takes parts of its block's row blocks (stated_one_rows.cuh) one
// after the other, and begins the next one before the last has ended.
//
// Warps begin with weights of the shared expert, which are known before the ids are, and the first kernel
// ends with asking for those that the second one begins with.
#include <algorithm>
#include <cstddef>

#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/prefetch.h"
#include "ops/experts/cuda/stated_launch.cuh"
#include "ops/experts/cuda/stated_one_rows.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using namespace stated_one;

constexpr std::uint32_t kBlockBarrier = 1;  // of all threads, which meet from several places
constexpr int kInnerRows = kRows / 2;       ///< inner values of a row block: 8 rows of w1 and the same of w3
constexpr int kMaxOutputs = 64;             ///< outputs that a block of the second kernel has
constexpr int kMaxSlots = kWarpLanes;       ///< a lane each
constexpr int kPlanWarp = kWarps - 1;       ///< not one of those that begin with the shared expert

/// Bytes of w2 that each multiprocessor asks for ahead: about as many as come while one kernel ends and the
/// next one begins; all of them fit the L2 of the smallest GPUs.
constexpr int kBytesAhead = 48 << 10;
constexpr std::int64_t kMaxSharedBytes = 99 << 10;  ///< that GPUs of 8.6, 8.9 and 12.0 have

struct OneParams {
  Params products;
  PlanInput input;
  TokenRows x;
  const float* weights = nullptr;
  Bf16Bits* inner = nullptr;  ///< [num_selected + 1, inner_pitch], the shared expert's last
  bool has_shared = false;
  /// Rows of y go to memory, for who adds them to those of the host, which the plan numbers too; null: they
  /// are added up here.
  std::int32_t* row_of_slot = nullptr;
  std::int32_t shared_row = 0;
  bool rounds_routed = false, rounds_shared = false;  ///< y
  Bf16Bits* out = nullptr;                            ///< null: the sums go to `sums`
  float* sums = nullptr;
};

/// What blocks know of the token's experts: of those whose products are made here, in ascending order.
struct OnePlan {
  int num_routed;
  std::int32_t places[kMaxSlots];
  float weights[kMaxSlots];
  std::int32_t rows[kMaxSlots];  ///< rows of y, where those are written
};

/// What a block has at the front of its shared memory, all of which is dynamic: so one figure says what it takes.
struct alignas(16) InnerState {
  OnePlan plan;
  int next_task;
};

/// By one warp. `row_of_slot`: where rows of y are written, or null.
__device__ void plan_token(const OneParams& p, std::int32_t* row_of_slot, OnePlan& plan) {
  const PlanInput& input = p.input;
  const int lane = lane_index();
  const int expert = lane < input.num_selected ? input.local_expert(__ldcg(input.ids + lane)) : -1;
  const bool multiplied = expert >= 0 && !input.is_computed(expert);
  const unsigned all_multiplied = __ballot_sync(kAllLanes, multiplied);
  int row = 0, number = 0;  // experts before this one
  for (int other = 0; other < input.num_selected; ++other) {
    const int of_other = __shfl_sync(kAllLanes, expert, other);
    const bool before = of_other >= 0 && (of_other < expert || (of_other == expert && other < lane));
    row += before ? 1 : 0;
    number += before ? static_cast<int>(all_multiplied >> other & 1u) : 0;
  }
  if (row_of_slot != nullptr && lane < input.num_selected) row_of_slot[lane] = expert >= 0 ? row : -1;
  if (lane == 0) plan.num_routed = __popc(all_multiplied);
  if (!multiplied) return;
  const Params& products = p.products;
  plan.places[number] = products.places == nullptr ? expert : __ldcg(products.places + expert);
  plan.weights[number] = __ldcg(p.weights + lane);
  plan.rows[number] = row;
}

/// What a block has of a number of things, of which blocks have equal parts.
struct Part {
  int begin, end;
  __device__ Part(std::int64_t count, int block, int num_blocks)
      : begin(static_cast<int>(count * block / num_blocks)),
        end(static_cast<int>(count * (block + 1) / num_blocks)) {}
};

__host__ __device__ int num_inner_blocks(const OneParams& p) {
  return p.has_shared ? p.products.shared_inner_width / kInnerRows : 0;
}

/// Row blocks of a block, the shared expert's first, and their tasks: numbers that warps claim.
class RowBlocks {
 public:
  __device__ RowBlocks(const OneParams& p, const OnePlan& plan, int& next, int num_inputs,
                       int num_shared_inputs)
      : p_(p),
        plan_(plan),
        next_(next),
        routed_cut_(num_inputs / kSliceWidth, kRoutedParts),
        shared_cut_(num_shared_inputs / kSliceWidth, kSharedParts) {}

  [[nodiscard]] __device__ const PartCut& routed_cut() const { return routed_cut_; }
  [[nodiscard]] __device__ const PartCut& shared_cut() const { return shared_cut_; }
  [[nodiscard]] __device__ int num_shared() const { return num_shared_; }
  [[nodiscard]] __device__ int num_shared_tasks() const { return num_shared_ * shared_cut_.count(); }
  [[nodiscard]] __device__ int end() const { return num_shared_tasks() + num_routed_ * routed_cut_.count(); }
  [[nodiscard]] __device__ int claim() const {
    int task = 0;
    if (lane_index() == 0) task = atomicAdd(&next_, 1);
    return __shfl_sync(kAllLanes, task, 0);
  }

 protected:
  const OneParams& p_;
  const OnePlan& plan_;
  int num_shared_ = 0, num_routed_ = 0;

 private:
  int& next_;
  PartCut routed_cut_, shared_cut_;
};

/// Of the first kernel. Blocks have as many bytes of weights each.
class InnerBlocks : public RowBlocks {
 public:
  __device__ InnerBlocks(const OneParams& p, const OnePlan& plan, int& next)
      : RowBlocks(p, plan, next, p.products.width, p.products.width) {
    const Part shared(num_inner_blocks(p), block(), num_blocks());
    first_shared_ = shared.begin;
    num_shared_ = shared.end - shared.begin;
  }
  /// Once the plan is there.
  __device__ void open() {
    first_routed_ = routed_before(block());
    num_routed_ = routed_before(block() + 1) - first_routed_;
  }
  /// Bytes of a row block for each eight inputs.
  static constexpr int kSharedBytes = kRows * 8, kRoutedBytes = kRows * 17 / 4;

  [[nodiscard]] __device__ RoutedRows routed_rows(int row_block) const {
    const Place place(*this, row_block);
    return {p_.products.routed[0],          place.value,      p_.products.routed[1], place.value,
            plan_.places[place.assignment], p_.products.width};
  }
  /// All have the token.
  [[nodiscard]] __device__ static int column(int /*row_block*/) { return 0; }
  /// Lane r has the sum of row r.
  __device__ void take(int row_block, float sum) const {
    const float up = __shfl_down_sync(kAllLanes, sum, kInnerRows);
    if (lane_index() >= kInnerRows) return;
    const Place place(*this, row_block);
    store(place.assignment, place.value,
          stated::activate(sum, up, p_.products.swiglu_limit, plan_.weights[place.assignment]));
  }

  [[nodiscard]] __device__ SharedRow shared_row(int row_block, int half) const {
    return {p_.products.shared[half], 0, first_value(row_block) + lane_index() / 4, p_.products.width};
  }
  /// Scales of the weights of the lane's row.
  [[nodiscard]] __device__ const float* shared_factors(int row_block) const {
    return SharedRow(p_.products.shared[lane_index() / kInnerRows % 2], 0, first_value(row_block),
                     p_.products.width)
        .scales;
  }
  __device__ void take_shared(int row_block, float sum) const {
    const float up = __shfl_down_sync(kAllLanes, sum, kInnerRows);
    if (lane_index() >= kInnerRows) return;
    store(p_.input.num_selected, first_value(row_block),
          BALEEN_ARCH::activate(sum, up, clamp_limit(p_.products.swiglu_limit), 1.0F));
  }

 private:
  struct Place {
    int assignment, value;
    __device__ Place(const InnerBlocks& blocks, int row_block) {
      const int number = blocks.first_routed_ + row_block - blocks.num_shared_;
      const int of_expert = blocks.p_.products.inner_width / kInnerRows;
      assignment = number / of_expert;
      value = number % of_expert * kInnerRows;
    }
  };

  __device__ static int block() { return static_cast<int>(blockIdx.x); }
  __device__ static int num_blocks() { return static_cast<int>(gridDim.x); }
  [[nodiscard]] __device__ int first_value(int row_block) const {
    return (first_shared_ + row_block) * kInnerRows;
  }
  __device__ void store(int assignment, int first, Bf16Bits a) const {
    p_.inner[std::int64_t{assignment} * p_.products.inner_pitch + first + lane_index()] = a;
  }
  /// How many routed row blocks the blocks before `index` have.
  [[nodiscard]] __device__ int routed_before(int index) const {
    const std::int64_t blocks = num_blocks(), all_shared = num_inner_blocks(p_);
    const std::int64_t all_routed = std::int64_t{plan_.num_routed} * (p_.products.inner_width / kInnerRows);
    const std::int64_t all_bytes = all_shared * kSharedBytes + all_routed * kRoutedBytes;
    if (all_bytes / blocks <
        (all_shared / blocks + 1) * kSharedBytes)  // few routed ones: not to be evened out
      return static_cast<int>(all_routed * index / blocks);
    const std::int64_t shared = all_shared * index / blocks;
    return static_cast<int>((all_bytes * index / blocks - shared * kSharedBytes) / kRoutedBytes);
  }

  int first_shared_ = 0, first_routed_ = 0;
};

/// Outputs that a block of the second kernel has.
struct BlockOutputs {
  int first, count;
  __device__ BlockOutputs(const OneParams& p, int block, int num_blocks) {
    const Part rows(p.products.width / kRows, block, num_blocks);
    first = rows.begin * kRows;
    count = (rows.end - rows.begin) * kRows;
  }
};

/// y of all assignments, the shared expert's behind the others.
using OneOutputs = float[kMaxSlots + 1][kMaxOutputs];

struct DownState : InnerState {
  OneOutputs y;
};

/// Of the second kernel, in which a block has all experts' rows of some outputs.
class DownBlocks : public RowBlocks {
 public:
  __device__ DownBlocks(const OneParams& p, const OnePlan& plan, int& next, OneOutputs& y)
      : RowBlocks(p, plan, next, p.products.inner_width, p.products.shared_inner_width),
        outputs_(p, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x)),
        y_(y) {
    num_shared_ = p.has_shared ? each() : 0;
  }
  /// Once the plan is there.
  __device__ void open() { num_routed_ = plan_.num_routed * each(); }

  [[nodiscard]] __device__ const BlockOutputs& outputs() const { return outputs_; }
  [[nodiscard]] __device__ RoutedRows routed_rows(int row_block) const {
    const int row = outputs_.first + (row_block - num_shared_) % each() * kRows;
    return {p_.products.routed[2],           row,
            p_.products.routed[2],           row + kRows / 2,
            plan_.places[column(row_block)], p_.products.inner_width};
  }
  [[nodiscard]] __device__ int column(int row_block) const { return (row_block - num_shared_) / each(); }
  __device__ void take(int row_block, float sum) const {
    store(column(row_block), (row_block - num_shared_) % each(), sum, p_.rounds_routed);
  }

  [[nodiscard]] __device__ SharedRow shared_row(int row_block, int half) const {
    const int row = outputs_.first + row_block * kRows + kRows / 2 * half + lane_index() / 4;
    return {p_.products.shared[2], 0, row, p_.products.shared_inner_width};
  }
  [[nodiscard]] __device__ const float* shared_factors(int row_block) const {
    return SharedRow(p_.products.shared[2], 0, outputs_.first + row_block * kRows,
                     p_.products.shared_inner_width)
        .scales;
  }
  __device__ void take_shared(int row_block, float sum) const {
    store(kMaxSlots, row_block, sum, p_.rounds_shared);
  }

 private:
  [[nodiscard]] __device__ int each() const { return outputs_.count / kRows; }  ///< row blocks of an expert
  __device__ void store(int assignment, int row_block, float sum, bool rounds) const {
    if (lane_index() < kRows)
      y_[assignment][row_block * kRows + lane_index()] = rounds ? rounded_to_bf16(sum) : sum;
  }

  BlockOutputs outputs_;
  OneOutputs& y_;
};

/// By all threads, as they end: rows of w2 that the second kernel's block with this one's number begins with.
__device__ void prefetch_down(const OneParams& p, const OnePlan& plan, int num_blocks) {
  if (static_cast<int>(blockIdx.x) >= num_blocks) return;
  const BlockOutputs outputs(p, static_cast<int>(blockIdx.x), num_blocks);
  const Matrix& matrix = p.products.routed[2];
  const int num_inputs = p.products.inner_width, each = outputs.count / kRows;
  const int code_bytes = kRows * num_inputs / 2, scale_bytes = kRows * num_inputs / 32;
  const int count = min(plan.num_routed * each, kBytesAhead / (code_bytes + scale_bytes));  // row blocks
  const int lines = (code_bytes + ptx::kPrefetchBytes - 1) / ptx::kPrefetchBytes;
  for (int i = static_cast<int>(threadIdx.x); i < count * lines; i += kThreads) {
    const int row_block = i / lines, at = i % lines * ptx::kPrefetchBytes;
    const std::int64_t row = outputs.first + row_block % each * kRows;
    const std::int64_t place = plan.places[row_block / each];
    ptx::prefetch_l2(matrix.codes + place * matrix.code_distance + row * (num_inputs / 2) + at);
    if (at >= scale_bytes) continue;
    ptx::prefetch_l2(static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance +
                     row * (num_inputs / 32) + at);
  }
}

constexpr int kLoads = 4;  ///< slices that a warp has under way

/// By all warps: the token's slices, for both kinds of experts.
__device__ void load_token(const OneParams& p, const OneMemory& memory) {
  const int num_slices = p.products.width / kSliceWidth;
  for (int first = warp_index(); first < num_slices; first += kLoads * kWarps) {
    uint2 words[kLoads];
    float scales[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int slice = min(first + i * kWarps, num_slices - 1), at = slice * kSliceWidth + 4 * lane_index();
      if (p.x.x_fp8.codes != nullptr) {
        words[i] = {__ldcg(reinterpret_cast<const std::uint32_t*>(p.x.x_fp8.codes + at)), 0};
        scales[i] = __ldcg(p.x.x_fp8.scales + slice * p.x.x_fp8.scale_stride);
      } else {
        words[i] = __ldcg(reinterpret_cast<const uint2*>(p.x.x + at));
      }
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int slice = first + i * kWarps;
      if (slice >= num_slices) break;
      if (p.x.x_fp8.codes == nullptr) {
        float values[4];
        unpack_bf16(words[i], values);
        const Fp8Piece<4> piece = quantise_fp8_group(values);
        words[i].x = piece.codes[0];
        scales[i] = piece.scale;
      }
      const std::uint32_t codes = words[i].x;
      std::uint32_t digits[kDigits];
      to_digits(codes, digits);
      store_digits(memory.digits(0, slice), digits);
      const bool nan = __any_sync(kAllLanes, has_nan(codes));
      if (lane_index() == 0) memory.scales(0)[slice] = slice_scale(scales[i], nan);
      if (!p.has_shared) continue;
      store_pairs(memory.pairs + slice * kSlicePairs, codes);
      if (lane_index() == 0) memory.pair_scales[slice] = scales[i];
    }
  }
}

/// By all warps: the inner values of all assignments, quantised.
__device__ void load_inner(const OneParams& p, const OnePlan& plan, const OneMemory& memory) {
  const Params& products = p.products;
  const int routed_slices = products.inner_width / kSliceWidth, num_routed = plan.num_routed * routed_slices;
  const int num_all = num_routed + (p.has_shared ? products.shared_inner_width / kSliceWidth : 0);
  for (int first = warp_index(); first < num_all; first += kLoads * kWarps) {
    uint2 words[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int item = min(first + i * kWarps, num_all - 1);
      const bool routed = item < num_routed;
      const int row = routed ? item / routed_slices : p.input.num_selected;
      const int slice = routed ? item % routed_slices : item - num_routed;
      words[i] = __ldcg(reinterpret_cast<const uint2*>(p.inner + std::int64_t{row} * products.inner_pitch +
                                                       slice * kSliceWidth + 4 * lane_index()));
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int item = first + i * kWarps;
      if (item >= num_all) break;
      float values[4];
      unpack_bf16(words[i], values);
      if (item < num_routed) {
        const int column = item / routed_slices, slice = item % routed_slices;
        std::int32_t x[4];
        const float scale = quantise_to_integers(values, x);
        std::uint32_t digits[kDigits];
        digits_of(x, digits);
        store_digits(memory.digits(column, slice), digits);
        if (lane_index() == 0) memory.scales(column)[slice] = scale;
      } else {
        const Fp8Piece<4> piece = quantise_fp8_group(values);
        store_pairs(memory.pairs + (item - num_routed) * kSlicePairs, piece.codes[0]);
        if (lane_index() == 0) memory.pair_scales[item - num_routed] = piece.scale;
      }
    }
  }
}

__device__ void meet() { ptx::named_barrier_sync(kBlockBarrier, kThreads); }

/// Both products' first, on all multiprocessors. `down_blocks`: blocks of the second kernel.
__global__ void __launch_bounds__(kThreads, 1)
    stated_inner_one_kernel(const __grid_constant__ OneParams p, OneExtents extents, int down_blocks,
                            NextBehindWait order) {
  extern __shared__ __align__(128) std::byte dynamic[];
  auto& [plan, next_task] = *reinterpret_cast<InnerState*>(dynamic);
  const OneMemory memory(dynamic + sizeof(InnerState), extents);
  InnerBlocks blocks(p, plan, next_task);
  const auto begin = [&] {
    memory.clear();
    order.wait().launch_next();
    if (warp_index() == kPlanWarp) plan_token(p, blockIdx.x == 0 ? p.row_of_slot : nullptr, plan);
    if (threadIdx.x == 0) next_task = kWarps;
    meet();
    blocks.open();
  };
  const auto prepare = [&] {
    load_token(p, memory);
    meet();
  };
  multiply_one(blocks, memory, begin, prepare);
  prefetch_down(p, plan, down_blocks);
}

/// The other, and the sums. The token's experts were known when the first kernel let this one begin, so that
/// weights come while that one still runs.
__global__ void __launch_bounds__(kThreads, 1)
    stated_down_one_kernel(const __grid_constant__ OneParams p, OneExtents extents, NextAtOnce order) {
  extern __shared__ __align__(128) std::byte dynamic[];
  auto& state = *reinterpret_cast<DownState*>(dynamic);
  const OnePlan& plan = state.plan;
  order.launch_next();
  const OneMemory memory(dynamic + sizeof(DownState), extents);
  DownBlocks blocks(p, plan, state.next_task, state.y);
  const auto begin = [&] {
    memory.clear();
    if (warp_index() == kPlanWarp) plan_token(p, nullptr, state.plan);
    if (threadIdx.x == 0) state.next_task = kWarps;
    meet();
    blocks.open();
  };
  const auto prepare = [&] {
    ptx::wait_for_previous_kernel();
    load_inner(p, plan, memory);
    meet();
  };
  multiply_one(blocks, memory, begin, prepare);
  meet();
  const int own = static_cast<int>(threadIdx.x), column = blocks.outputs().first + own;
  if (own >= blocks.outputs().count) return;
  if (p.row_of_slot != nullptr) {
    const auto store = [&](const ExpertOutputs& to, int row, float value) {
      const std::int64_t at = std::int64_t{row} * p.products.width + column;
      if (to.partial != nullptr) {
        to.partial[at] = value;
      } else {
        to.rounded[at] = bf16_bits(value);
      }
    };
    for (int i = 0; i < plan.num_routed; ++i) store(p.products.y.routed, plan.rows[i], state.y[i][own]);
    if (p.has_shared) store(p.products.y.shared, p.shared_row, state.y[kMaxSlots][own]);
    return;
  }
  float sum = 0.0F;
  for (int i = 0; i < plan.num_routed; ++i) sum += state.y[i][own];
  if (p.has_shared) sum += state.y[kMaxSlots][own];
  if (p.out != nullptr) {
    p.out[column] = bf16_bits(sum);
  } else {
    p.sums[column] = sum;
  }
}

/// Blocks of a kernel, and what each has in shared memory: as many as there are multiprocessors, or more
/// where too many row blocks would be one's.
template <class State>
struct OneGrid {
  int num_blocks;
  OneExtents extents;

  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(sizeof(State)) + OneMemory::bytes(extents);
  }
  [[nodiscard]] bool fits() const { return bytes() <= kMaxSharedBytes; }
};

OneGrid<InnerState> inner_grid(const ExpertsArgs& args, int num_sms) {
  const auto width = args.x.extent(1), num_selected = args.ids.extent(1);
  const std::int64_t shared = args.shared != nullptr ? args.shared->w1.rows / kInnerRows : 0;
  const std::int64_t routed = num_selected * args.routed[0].w1.rows / kInnerRows;
  const std::int64_t bytes = shared * InnerBlocks::kSharedBytes + routed * InnerBlocks::kRoutedBytes;
  const auto slices = static_cast<int>(width / kSliceWidth);
  OneGrid<InnerState> grid{};
  do {
    grid.num_blocks += num_sms;
    grid.extents = {.num_columns = 1,
                    .num_slices = slices,
                    .num_shared_slices = shared > 0 ? slices : 0,
                    .num_row_blocks = static_cast<int>(
                        shared / grid.num_blocks + bytes / InnerBlocks::kRoutedBytes / grid.num_blocks + 4)};
  } while (!grid.fits() && grid.extents.num_row_blocks > 4);
  return grid;
}

OneGrid<DownState> down_grid(const ExpertsArgs& args, int num_sms) {
  const auto units = static_cast<int>(args.x.extent(1) / kRows);
  const auto num_selected = static_cast<int>(args.ids.extent(1));
  const int slices = static_cast<int>(args.routed[0].w1.rows / kSliceWidth);
  const int shared_slices = args.shared != nullptr ? static_cast<int>(args.shared->w1.rows / kSliceWidth) : 0;
  OneGrid<DownState> grid{};
  for (int each = std::min(kMaxOutputs / kRows, (units + num_sms - 1) / num_sms); each >= 1; --each) {
    grid = {.num_blocks = std::max(std::min(units, num_sms), (units + each - 1) / each),
            .extents = {.num_columns = num_selected,
                        .num_slices = slices,
                        .num_shared_slices = shared_slices,
                        .num_row_blocks = (num_selected + (shared_slices > 0 ? 1 : 0)) * each}};
    if (grid.fits()) break;
  }
  return grid;
}

}  // namespace

bool multiplies_one(const ExpertsArgs& args, int num_sms) {
  return args.x.extent(0) == 1 && args.ids.extent(1) <= kMaxSlots && inner_grid(args, num_sms).fits() &&
         down_grid(args, num_sms).fits();
}

void multiply_one_stated(const ExpertsArgs& args, const DispatchExtents& extents,
                         const ExpertScratch& scratch, CudaContext& context) {
  const bool adds_up = !host_computes(args);
  const OneParams params{.products = dequantised::params_of(args, extents, scratch, {}),
                         .input = PlanInput(args, extents),
                         .x = TokenRows(args),
                         .weights = args.weights.data(),
                         .inner = scratch.inner_bf16,
                         .has_shared = args.shared != nullptr,
                         .row_of_slot = adds_up ? nullptr : scratch.plan.row_of_slot,
                         .shared_row = static_cast<std::int32_t>(extents.first_shared_row()),
                         .rounds_routed = !args.split.routed,
                         .rounds_shared = !args.split.shared,
                         .out = args.partial_sums ? nullptr : args.out.bf16().data(),
                         .sums = args.partial_sums ? args.out.data() : nullptr};
  const auto inner = inner_grid(args, context.num_sms);
  const auto down = down_grid(args, context.num_sms);
  const auto shape = [](const auto& grid) {
    return LaunchShape{.grid = dim3(static_cast<unsigned>(grid.num_blocks)),
                       .threads = kThreads,
                       .shared_bytes = grid.bytes()};
  };
  launch_kernel(kStatedLaunch, stated_inner_one_kernel, shape(inner), context.stream, params, inner.extents,
                down.num_blocks);
  launch_kernel(kStatedLaunch, stated_down_one_kernel, shape(down), context.stream, params, down.extents);
  if (!adds_up) combine_experts(args, extents, scratch.plan, scratch.y, context);
}

}  // namespace baleen::BALEEN_ARCH
