// Experts in the stated order, one token: w1 and w3 with the activation in one launch, w2 and the sums in
// another. What a call waits for is its weights, so all multiprocessors have as many bytes of them, all warps
// of one too (stated_one_rows.cuh), and more of them are under way at all times than registers have room for.
//
// A block has all of a multiprocessor's registers, and the first kernel ends with asking for what the second
// one begins with. Either begins with weights of the shared expert, which are known before the ids are.
#include <algorithm>
#include <cstddef>

#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/experts/cuda/stated_launch.cuh"
#include "ops/experts/cuda/stated_one_rows.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using namespace stated_one;

constexpr int kInnerRows = kRows / 2;  ///< inner values of a row block: 8 rows of w1 and the same of w3
constexpr int kMaxOutputs = 64;        ///< outputs that a block of the second kernel has
constexpr int kMaxSlots = kWarpLanes;  ///< a lane each

/// Bytes of w2 that each multiprocessor asks for ahead: about as many as come while one kernel ends and the
/// next one begins; all of them fit the L2 of the smallest GPUs.
constexpr int kBytesAhead = 64 << 10;
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

/// What a block has at the front of its shared memory, all of which is dynamic: one figure says how much.
struct alignas(16) InnerState {
  OnePlan plan;
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

/// Row blocks of a block of the first kernel. Blocks have about as many bytes of weights each.
class InnerBlocks {
 public:
  /// Inner values `value` to `value` + 7 of the plan's expert `assignment`.
  struct Place {
    int assignment, value;
  };

  /// `shared`: how the shared expert's row blocks are split.
  __device__ InnerBlocks(const OneParams& p, const OnePlan& plan, const EvenSplit& shared)
      : p_(p), plan_(plan), shared_(shared), first_shared_(shared.begin(block())) {
    num_shared_ = shared.begin(block() + 1) - first_shared_;
  }
  /// Once the plan is there.
  __device__ void open() {
    // A row block of the shared expert counts as two, and is about that many bytes, where all blocks have
    // two others to make up for it.
    const int all = plan_.num_routed * values_blocks();
    const int weight = all >= kSharedWeight * shared_.num_blocks ? kSharedWeight : 0;
    const auto count = static_cast<unsigned>(all + weight * shared_.extra);
    const int each = static_cast<int>(count / static_cast<unsigned>(shared_.num_blocks));
    const int extra = static_cast<int>(count) - each * shared_.num_blocks;
    const auto before = [&](int index) {
      return index * each + min(index, extra) - weight * min(index, shared_.extra);
    };
    first_routed_ = before(block());
    num_routed_ = before(block() + 1) - first_routed_;
  }
  /// Of all row blocks of a block, for `num_selected` experts.
  static int most(const EvenSplit& shared, int num_values_blocks, int num_selected) {
    const EvenSplit all(num_selected * num_values_blocks + kSharedWeight * shared.extra, shared.num_blocks);
    return shared.most() + all.most();
  }

  [[nodiscard]] __device__ int num_shared() const { return num_shared_; }
  [[nodiscard]] __device__ int num_routed() const { return num_routed_; }

  [[nodiscard]] __device__ Place place(int row_block) const {
    const auto number = static_cast<unsigned>(first_routed_ + row_block),
               of_expert = static_cast<unsigned>(values_blocks());
    const unsigned assignment = number / of_expert;
    return {static_cast<int>(assignment), static_cast<int>(number - assignment * of_expert) * kInnerRows};
  }
  __device__ void step(Place& place) const {
    place.value += kInnerRows;
    if (place.value < p_.products.inner_width) return;
    place.value = 0;
    ++place.assignment;
  }
  [[nodiscard]] __device__ RowPlace rows(const Place& place) const {
    return {p_.products.routed[0], p_.products.routed[1],          place.value,
            place.value,           plan_.places[place.assignment], p_.products.width};
  }
  /// All have the token.
  [[nodiscard]] __device__ static int column(const Place& /*place*/) { return 0; }
  [[nodiscard]] __device__ SharedRow shared_row(int row_block, int half, int row) const {
    return {p_.products.shared[half], 0, first_value(row_block) + row, p_.products.width};
  }
  /// First inner value of a row block of the shared expert.
  [[nodiscard]] __device__ int first_value(int row_block) const {
    return (first_shared_ + row_block) * kInnerRows;
  }

 private:
  static constexpr int kSharedWeight = 2;

  __device__ static int block() { return static_cast<int>(blockIdx.x); }
  [[nodiscard]] __device__ int values_blocks() const { return p_.products.inner_width / kInnerRows; }

  const OneParams& p_;
  const OnePlan& plan_;
  EvenSplit shared_;
  int first_shared_, num_shared_, first_routed_ = 0, num_routed_ = 0;
};

/// Outputs that a block of the second kernel has.
struct BlockOutputs {
  int first, count;
  /// `split`: of row blocks.
  __device__ BlockOutputs(const EvenSplit& split, int block)
      : first(split.begin(block) * kRows), count(split.begin(block + 1) * kRows - first) {}
};

/// y of all assignments, the shared expert's behind the others.
using OneOutputs = float[kMaxSlots + 1][kMaxOutputs];

struct DownState : InnerState {
  OneOutputs y;
};

/// Row blocks of a block of the second kernel, which has all experts' rows of some outputs.
class DownBlocks {
 public:
  /// Output `row` and the 15 behind it, of the plan's expert `assignment`.
  struct Place {
    int assignment, row;
  };

  __device__ DownBlocks(const OneParams& p, const OnePlan& plan, const EvenSplit& outputs)
      : p_(p), plan_(plan), outputs_(outputs, static_cast<int>(blockIdx.x)) {}

  [[nodiscard]] __device__ const BlockOutputs& outputs() const { return outputs_; }
  [[nodiscard]] __device__ int each() const { return outputs_.count / kRows; }  ///< row blocks of an expert
  [[nodiscard]] __device__ int num_shared() const { return p_.has_shared ? each() : 0; }
  [[nodiscard]] __device__ int num_routed() const { return plan_.num_routed * each(); }

  [[nodiscard]] __device__ Place place(int row_block) const {
    const unsigned assignment = static_cast<unsigned>(row_block) / static_cast<unsigned>(each());
    return {static_cast<int>(assignment),
            outputs_.first + (row_block - static_cast<int>(assignment) * each()) * kRows};
  }
  __device__ void step(Place& place) const {
    place.row += kRows;
    if (place.row < outputs_.first + outputs_.count) return;
    place.row = outputs_.first;
    ++place.assignment;
  }
  [[nodiscard]] __device__ RowPlace rows(const Place& place) const {
    return {p_.products.routed[2], p_.products.routed[2],          place.row,
            place.row + kRows / 2, plan_.places[place.assignment], p_.products.inner_width};
  }
  [[nodiscard]] __device__ static int column(const Place& place) { return place.assignment; }
  [[nodiscard]] __device__ SharedRow shared_row(int row_block, int half, int row) const {
    return {p_.products.shared[2], 0, outputs_.first + row_block * kRows + kRows / 2 * half + row,
            p_.products.shared_inner_width};
  }

 private:
  const OneParams& p_;
  const OnePlan& plan_;
  BlockOutputs outputs_;
};

/// By all threads: asks for `bytes` bytes from `from` on.
__device__ void ask_for(const std::uint8_t* from, int bytes) {
  const int step = static_cast<int>(blockDim.x) * ptx::kPrefetchBytes;
  for (int at = static_cast<int>(threadIdx.x) * ptx::kPrefetchBytes; at < bytes; at += step)
    ptx::prefetch_l2(from + at);
}

/// By all threads, as they end: rows of w2 that the second kernel's block with this one's number begins with.
/// `down`: how that one's are split.
__device__ void ask_for_down(const OneParams& p, const OnePlan& plan, const EvenSplit& down) {
  if (static_cast<int>(blockIdx.x) >= down.num_blocks) return;
  const BlockOutputs outputs(down, static_cast<int>(blockIdx.x));
  const Params& products = p.products;
  int left = kBytesAhead;
  if (p.has_shared) {
    const int bytes = min(left, outputs.count * products.shared_inner_width);
    ask_for(products.shared[2].codes + std::int64_t{outputs.first} * products.shared_inner_width, bytes);
    left -= bytes;
  }
  const Matrix& matrix = products.routed[2];
  const int code_bytes = products.inner_width / 2, scale_bytes = products.inner_width / 32;  // a row's
  for (int i = 0; i < plan.num_routed && left > 0; ++i) {
    const std::int64_t place = plan.places[i];
    const int bytes = min(left, outputs.count * code_bytes);
    ask_for(matrix.codes + place * matrix.code_distance + std::int64_t{outputs.first} * code_bytes, bytes);
    ask_for(static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance +
                std::int64_t{outputs.first} * scale_bytes,
            outputs.count * scale_bytes);
    left -= bytes;
  }
}

/// Pieces of slices on their way: a warp has two slices at a time, half a warp each.
__device__ int pieces_of_block() { return 2 * num_warps(); }
__device__ int first_piece(int warp) { return 2 * warp; }
__device__ int own_piece(int first) { return first + lane_index() / kPieceLanes; }

/// The token, as the operation before has left it.
class TokenLoader {
 public:
  __device__ TokenLoader(const OneParams& p, int warp) : p_(p), first_(first_piece(warp)) { load(); }

  /// By all warps: its slices, for both kinds of experts.
  __device__ void store(const OneMemory& memory) {
    const int num_slices = p_.products.width / kSliceWidth;
#pragma unroll 1
    while (first_ < num_slices) {
      const int slice = own_piece(first_);
      const SlicePiece piece =
          has_codes() ? piece_of_codes({words_.x, words_.y}, scale_) : quantised_piece(words_);
      first_ += pieces_of_block();
      load();
      if (slice >= num_slices) continue;
      store_digits(memory.digits(0, slice), memory.scales(0) + slice, piece);
      if (p_.has_shared) store_pairs(memory.pairs + slice * kSlicePairs, memory.pair_scales + slice, piece);
    }
  }

 private:
  [[nodiscard]] __device__ bool has_codes() const { return p_.x.x_fp8.codes != nullptr; }
  __device__ void load() {
    const int slice = min(own_piece(first_), p_.products.width / kSliceWidth - 1);
    const int at = slice * kSliceWidth + lane_index() % kPieceLanes * kPieceValues;
    if (has_codes()) {
      const uint2 codes = __ldcg(reinterpret_cast<const uint2*>(p_.x.x_fp8.codes + at));
      words_.x = codes.x, words_.y = codes.y;
      scale_ = __ldcg(p_.x.x_fp8.scales + slice * p_.x.x_fp8.scale_stride);
    } else {
      words_ = __ldcg(reinterpret_cast<const uint4*>(p_.x.x + at));
    }
  }

  const OneParams& p_;
  int first_;
  uint4 words_{};
  float scale_ = 0.0F;
};

/// By all warps: the inner values of all assignments, quantised; the shared expert's are the last.
__device__ void load_inner(const OneParams& p, const OnePlan& plan, const OneMemory& memory, int warp) {
  const Params& products = p.products;
  const auto routed_slices = static_cast<unsigned>(products.inner_width / kSliceWidth);
  const int num_routed = plan.num_routed * static_cast<int>(routed_slices);
  const int num_all = num_routed + (p.has_shared ? products.shared_inner_width / kSliceWidth : 0);
  /// Which slice of which row of `inner`, or column of digits.
  struct Item {
    bool is_routed;
    int row, slice;
  };
  const auto item_of = [&](int number) -> Item {
    if (number >= num_routed) return {false, p.input.num_selected, number - num_routed};
    const unsigned row = static_cast<unsigned>(number) / routed_slices;
    return {true, static_cast<int>(row), number - static_cast<int>(row * routed_slices)};
  };
  const auto load = [&](int number) {
    const Item item = item_of(min(number, num_all - 1));
    return __ldcg(reinterpret_cast<const uint4*>(p.inner + std::int64_t{item.row} * products.inner_pitch +
                                                 item.slice * kSliceWidth +
                                                 lane_index() % kPieceLanes * kPieceValues));
  };
  int first = first_piece(warp);
  if (first >= num_all) return;
  uint4 next = load(own_piece(first));
#pragma unroll 1
  for (; first < num_all; first += pieces_of_block()) {
    const int number = own_piece(first);
    const uint4 words = next;
    next = load(number + pieces_of_block());
    const SlicePiece piece = quantised_piece(words);
    if (number >= num_all) continue;
    const Item item = item_of(number);
    if (item.is_routed) {
      store_digits(memory.digits(item.row, item.slice), memory.scales(item.row) + item.slice, piece);
    } else {
      store_pairs(memory.pairs + item.slice * kSlicePairs, memory.pair_scales + item.slice, piece);
    }
  }
}

/// Calls `take(row_block, row, sum)` with the sum of each row, by all lanes of a warp: those of half a one
/// have the rows of a row block. Row blocks from `end` on do not exist; `sum` is then anything.
template <class Blocks, class Take>
__device__ void for_each_sum(const Blocks& blocks, const OneMemory& memory, const OneExtents& extents,
                             int warp, Take take) {
  const int end = blocks.num_shared() + blocks.num_routed(), row = lane_index() % kRows;
#pragma unroll 1
  for (int first = 2 * warp; first < end; first += 2 * num_warps()) {
    const int row_block = first + lane_index() / kRows;
    float sum = 0.0F;
    if (row_block < blocks.num_shared()) {
      sum = sum_of_shared(memory, row_block, row, extents.num_shared_slices);
    } else if (row_block < end) {
      const int column = Blocks::column(blocks.place(row_block - blocks.num_shared()));
      sum = sum_of_routed(memory, row_block, row, extents.num_slices, column);
    }
    take(row_block, row, end, sum);
  }
}

/// Both products' first, on all multiprocessors. `shared`: how the shared expert's row blocks are split;
/// `down`: the second kernel's.
template <bool kWhole>
__global__ void __launch_bounds__(kMaxThreads, 1)
    stated_inner_one_kernel(const __grid_constant__ OneParams p, OneExtents extents, EvenSplit shared,
                            EvenSplit down, NextBehindWait order) {
  extern __shared__ __align__(128) std::byte dynamic[];
  OnePlan& plan = reinterpret_cast<InnerState*>(dynamic)->plan;
  const OneMemory memory(dynamic + sizeof(InnerState), extents);
  const int warp = warp_index();
  InnerBlocks blocks(p, plan, shared);
  SharedPart<InnerBlocks> shared_part(blocks, extents.num_shared_slices, warp);
  memory.clear();
  order.wait().launch_next();
  TokenLoader token(p, warp);
  if (warp == num_warps() - 1) plan_token(p, blockIdx.x == 0 ? p.row_of_slot : nullptr, plan);
  __syncthreads();
  blocks.open();
  multiply_routed<kWhole>(blocks, extents.num_slices, warp, memory, [&] {
    token.store(memory);
    __syncthreads();
    shared_part.multiply(memory);
  });
  ask_for_down(p, plan, down);
  __syncthreads();
  for_each_sum(blocks, memory, extents, warp, [&](int row_block, int row, int end, float sum) {
    const float up = __shfl_down_sync(kAllLanes, sum, kInnerRows);
    if (row >= kInnerRows || row_block >= end) return;
    const auto store = [&](int assignment, int first, Bf16Bits a) {
      p.inner[std::int64_t{assignment} * p.products.inner_pitch + first + row] = a;
    };
    if (row_block < blocks.num_shared()) {
      store(p.input.num_selected, blocks.first_value(row_block),
            BALEEN_ARCH::activate(sum, up, clamp_limit(p.products.swiglu_limit), 1.0F));
    } else {
      const InnerBlocks::Place place = blocks.place(row_block - blocks.num_shared());
      store(place.assignment, place.value,
            stated::activate(sum, up, p.products.swiglu_limit, plan.weights[place.assignment]));
    }
  });
}

/// The other, and the sums. The token's experts were known when the first kernel let this one begin, so that
/// weights come while that one still runs.
template <bool kWhole>
__global__ void __launch_bounds__(kMaxThreads, 1)
    stated_down_one_kernel(const __grid_constant__ OneParams p, OneExtents extents, EvenSplit outputs,
                           NextAtOnce order) {
  extern __shared__ __align__(128) std::byte dynamic[];
  auto& state = *reinterpret_cast<DownState*>(dynamic);
  const OnePlan& plan = state.plan;
  order.launch_next();
  const OneMemory memory(dynamic + sizeof(DownState), extents);
  const int warp = warp_index();
  const DownBlocks blocks(p, plan, outputs);
  SharedPart<DownBlocks> shared_part(blocks, extents.num_shared_slices, warp);
  memory.clear();
  if (warp == num_warps() - 1) plan_token(p, nullptr, state.plan);
  __syncthreads();
  multiply_routed<kWhole>(blocks, extents.num_slices, warp, memory, [&] {
    ptx::wait_for_previous_kernel();
    load_inner(p, plan, memory, warp);
    __syncthreads();
    shared_part.multiply(memory);
  });
  __syncthreads();
  for_each_sum(blocks, memory, extents, warp, [&](int row_block, int row, int end, float sum) {
    if (row_block >= end) return;
    const int routed = row_block - blocks.num_shared();
    const bool is_shared = routed < 0;
    const bool rounds = is_shared ? p.rounds_shared : p.rounds_routed;
    const DownBlocks::Place place = blocks.place(is_shared ? row_block : routed);
    state.y[is_shared ? kMaxSlots : place.assignment][place.row - blocks.outputs().first + row] =
        rounds ? rounded_to_bf16(sum) : sum;
  });
  __syncthreads();
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
  EvenSplit split;  ///< splits the shared expert's row blocks, or those of outputs
  OneExtents extents;

  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(sizeof(State)) + OneMemory::bytes(extents);
  }
  [[nodiscard]] bool fits() const { return bytes() <= kMaxSharedBytes; }
};

OneGrid<InnerState> inner_grid(const ExpertsArgs& args, int num_sms) {
  const int num_shared = args.shared != nullptr ? static_cast<int>(args.shared->w1.rows / kInnerRows) : 0;
  const auto of_expert = static_cast<int>(args.routed[0].w1.rows / kInnerRows),
             num_selected = static_cast<int>(args.ids.extent(1)),
             slices = static_cast<int>(args.x.extent(1) / kSliceWidth);
  OneGrid<InnerState> grid{};
  int num_blocks = 0;
  do {
    num_blocks += num_sms;
    grid.split = EvenSplit(num_shared, num_blocks);
    grid.extents = {.num_columns = 1,
                    .num_slices = slices,
                    .num_shared_slices = num_shared > 0 ? slices : 0,
                    .num_row_blocks = InnerBlocks::most(grid.split, of_expert, num_selected),
                    .num_shared_row_blocks = grid.split.most()};
  } while (!grid.fits() && num_blocks < num_shared + num_selected * of_expert);
  return grid;
}

OneGrid<DownState> down_grid(const ExpertsArgs& args, int num_sms) {
  const auto units = static_cast<int>(args.x.extent(1) / kRows);
  const auto num_selected = static_cast<int>(args.ids.extent(1));
  const int slices = static_cast<int>(args.routed[0].w1.rows / kSliceWidth);
  const int shared_slices = args.shared != nullptr ? static_cast<int>(args.shared->w1.rows / kSliceWidth) : 0;
  OneGrid<DownState> grid{};
  for (int each = std::min(kMaxOutputs / kRows, (units + num_sms - 1) / num_sms); each >= 1; --each) {
    grid = {.split = EvenSplit(units, std::max(std::min(units, num_sms), (units + each - 1) / each)),
            .extents = {.num_columns = num_selected,
                        .num_slices = slices,
                        .num_shared_slices = shared_slices,
                        .num_row_blocks = (num_selected + (shared_slices > 0 ? 1 : 0)) * each,
                        .num_shared_row_blocks = shared_slices > 0 ? each : 0}};
    if (grid.fits()) break;
  }
  return grid;
}

/// Whether chunks of any row are whole, and their scales lie where 16 bytes can be read.
bool are_whole(const Matrix& matrix, int num_inputs) {
  constexpr int kBytes = kChunk * kSliceGroups;
  return reinterpret_cast<std::uintptr_t>(matrix.scales) % kBytes == 0 &&
         matrix.scale_distance % kBytes == 0 && num_inputs / 32 % kBytes == 0;
}

}  // namespace

bool multiplies_one(const ExpertsArgs& args, int num_sms) {
  return args.x.extent(0) == 1 && args.ids.extent(1) <= kMaxSlots && inner_grid(args, num_sms).fits() &&
         down_grid(args, num_sms).fits();
}

void multiply_one_stated(const ExpertsArgs& args, const DispatchExtents& extents,
                         const ExpertScratch& scratch, CudaContext& context) {
  const bool adds_up = !host_computes(args);
  const Params products = dequantised::params_of(args, extents, scratch, {});
  const OneParams params{.products = products,
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
  const bool whole = are_whole(products.routed[0], products.width) &&
                     are_whole(products.routed[1], products.width) &&
                     are_whole(products.routed[2], products.inner_width);
  const auto launch = [&](auto kernel, const auto& grid, const auto&... splits) {
    launch_kernel(kStatedLaunch, kernel,
                  {.grid = dim3(static_cast<unsigned>(grid.split.num_blocks)),
                   .threads = kMaxThreads,
                   .shared_bytes = grid.bytes()},
                  context.stream, params, grid.extents, splits...);
  };
  launch(whole ? stated_inner_one_kernel<true> : stated_inner_one_kernel<false>, inner, inner.split,
         down.split);
  launch(whole ? stated_down_one_kernel<true> : stated_down_one_kernel<false>, down, down.split);
  if (!adds_up) combine_experts(args, extents, scratch.plan, scratch.y, context);
}

}  // namespace baleen::BALEEN_ARCH
