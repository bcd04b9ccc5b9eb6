// Experts in the stated order, one token: w1 and w3 with the activation in one launch, w2 and the sums in
// another. What a call waits for is its weights, so all multiprocessors have as many bytes of them, and every
// warp has loads under way at all times: it takes tasks of its block one after the other, and begins the next
// one before the last has ended.
//
// A task of a routed expert is four weight rows (inner: two of w1 and the same of w3). A lane has one scale
// group of each row at a time, 16 bytes that it multiplies by the token's digits on its own (dp4a): G needs
// no other lane. A quad has a slice; slices are added up in order behind the rows' last one.
// A task of the shared expert is 16 rows (inner: 8 of w1 and the same of w3), multiplied as in
// expert_dequantised.cuh, to the same bits.
//
// The first kernel begins with weights of the shared expert, which are known before the ids are, and ends
// with asking for those that the second one begins with.
#include <algorithm>
#include <cstddef>

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mma_bf16.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/ptx/prefetch.h"
#include "cuda/scale_group.cuh"
#include "ops/experts/cuda/stated_launch.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using namespace stated;
using SharedRow = dequantised::RowReader<WeightFormat::kFp8>;

constexpr int kWarps = 16, kThreads = kWarps * kWarpLanes;
constexpr std::uint32_t kBlockBarrier = 1;  // of all threads, which meet from several places

constexpr int kRows = 4;                                 ///< weight rows of a routed expert's task
constexpr int kInnerOfTask = kRows / 2;                  ///< inner values, where two rows make one
constexpr int kStepGroups = kWarpLanes;                  ///< scale groups of a step: a lane has one
constexpr int kStepSlices = kStepGroups / kSliceGroups;  ///< slices of a step
constexpr int kGroupBytes = 16;                          ///< weights of a scale group
constexpr int kDigitParts = 6;  ///< pieces of 16 bytes: the digits of a group's inputs
constexpr int kStepParts = kDigitParts * kStepGroups;

constexpr int kSharedRows = 16;        ///< weight rows of a shared expert's task
constexpr int kSharedAhead = 3;        ///< its slices under way
constexpr int kSlicePairs = 16;        ///< pieces of 16 bytes: a slice's inputs as BF16
constexpr int kBlockOutputs = 64;      ///< outputs that a block of the second kernel has at most
constexpr int kMaxSlots = kWarpLanes;  ///< a lane each

/// Bytes that each multiprocessor asks for ahead: about as many as come while one kernel ends and the next
/// one begins; all of them fit the L2 of the smallest GPUs.
constexpr int kSharedBytesAhead = 32 << 10, kDownBytesAhead = 48 << 10;

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

__device__ int lane_index() { return static_cast<int>(threadIdx.x) % kWarpLanes; }
__device__ int warp_index() { return static_cast<int>(threadIdx.x) / kWarpLanes; }
__device__ void meet() { ptx::named_barrier_sync(kBlockBarrier, kThreads); }

__host__ __device__ constexpr int steps_of(int num_inputs) {
  return (num_inputs / kSliceWidth + kStepSlices - 1) / kStepSlices;
}
/// From row to row of slices' sums: four rows' lie in different banks.
__host__ __device__ constexpr int sums_pitch(int num_inputs) {
  constexpr int kBanks = 32;
  return (steps_of(num_inputs) * kStepSlices + kBanks - 1) / kBanks * kBanks + kStepSlices;
}

/// Dynamic shared memory of a block.
class OneMemory {
 public:
  /// `num_columns` rows of `num_inputs` activations, and one of `num_shared_inputs`.
  __device__ OneMemory(std::byte* memory, int num_columns, int num_inputs, int num_shared_inputs)
      : num_inputs_(num_inputs) {
    digits_ = reinterpret_cast<uint4*>(memory);
    pairs = digits_ + num_columns * steps_of(num_inputs) * kStepParts;
    slice_sums = reinterpret_cast<float*>(pairs + num_shared_inputs / kSliceWidth * kSlicePairs) +
                 warp_index() * kRows * sums_pitch(num_inputs);
    scales_ = slice_sums + (kWarps - warp_index()) * kRows * sums_pitch(num_inputs);
    pair_scales = scales_ + num_columns * steps_of(num_inputs) * kStepSlices;
  }
  static std::int64_t bytes(std::int64_t num_columns, int num_inputs, int num_shared_inputs) {
    const std::int64_t column = steps_of(num_inputs) * (kStepParts * 16 + kStepSlices * 4);
    const std::int64_t shared_column = num_shared_inputs / kSliceWidth * (kSlicePairs * 16 + 4);
    return num_columns * column + shared_column + std::int64_t{kWarps} * kRows * sums_pitch(num_inputs) * 4;
  }

  [[nodiscard]] __device__ uint4* digits(int column) const {
    return digits_ + column * steps_of(num_inputs_) * kStepParts;
  }
  /// S * 2^-10 of a column's slices.
  [[nodiscard]] __device__ float* scales(int column) const {
    return scales_ + column * steps_of(num_inputs_) * kStepSlices;
  }

  uint4* pairs;        ///< the shared activations as BF16, in the order of `Columns`
  float* pair_scales;  ///< S of its slices
  float* slice_sums;   ///< the warp's: [kRows, sums_pitch]

 private:
  uint4* digits_;
  float* scales_;
  int num_inputs_;
};

/// By a warp: inputs 4 lane to 4 lane + 3 of a slice, as digits of column `column`.
__device__ void store_digits(const OneMemory& memory, int column, int slice, std::uint32_t codes,
                             float scale) {
  std::uint32_t digits[kDigits];
  to_digits(codes, digits);
  // Of eight inputs, half a group's pair of words of codes, there are six words: two of each digit.
  const int lane = lane_index(), group = slice % kStepSlices * kSliceGroups + lane / 8;
  const int eight = lane % 8 / 2, half = lane % 2;
  auto* const words =
      reinterpret_cast<std::uint32_t*>(memory.digits(column) + slice / kStepSlices * kStepParts);
#pragma unroll
  for (int digit = 0; digit < kDigits; ++digit) {
    const int word = eight * 2 * kDigits + 2 * digit + half;
    words[(word / 4 * kStepGroups + group) * 4 + word % 4] = digits[digit];
  }
  const bool nan = __any_sync(kAllLanes, has_nan(codes));
  if (lane == 0) memory.scales(column)[slice] = slice_scale(scale, nan);
}
/// The same for the shared expert.
__device__ void store_pairs(const OneMemory& memory, int slice, std::uint32_t codes, float scale) {
  const int lane = lane_index(), eight = lane / 2;
  const std::uint32_t next = __shfl_down_sync(kAllLanes, codes, 1);
  std::uint32_t pairs[4];
  dequantised::dequantise_e4m3_words(codes, next, pairs);
  if (lane % 2 == 0) {
    memory.pairs[slice * kSlicePairs + eight % 4 * 4 + eight / 4] = {pairs[0], pairs[1], pairs[2], pairs[3]};
  }
  if (lane == 0) memory.pair_scales[slice] = scale;
}

/// What blocks know of the token's experts: of those whose products are made here, in ascending order.
struct OnePlan {
  int num_routed;
  std::int32_t places[kMaxSlots];
  float weights[kMaxSlots];
  std::int32_t rows[kMaxSlots];  ///< rows of y, where those are written
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

/// Where four rows of a routed expert's matrices lie: rows 0 and 1 side by side, and rows 2 and 3.
struct TaskRows {
  const std::uint8_t* codes[2];
  const std::uint8_t* scales[2];

  __device__ TaskRows() = default;
  __device__ TaskRows(const Matrix& first, int first_row, const Matrix& second, int second_row, int place,
                      int num_inputs) {
    const auto find = [&](const Matrix& matrix, int row, int i) {
      codes[i] = matrix.codes + place * matrix.code_distance + std::int64_t{row} * (num_inputs / 2);
      scales[i] = static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance +
                  std::int64_t{row} * (num_inputs / 32);
    };
    find(first, first_row, 0);
    find(second, second_row, 1);
  }
};

/// The lane's group of each row in a step of a task.
struct WeightStep {
  uint4 codes[kRows];
  std::uint32_t scales[kRows];
  int task;
  int step;
};

/// Of the four products p of each lane with its rows' groups: the slice of row q of the lane's quad.
__device__ float slice_of_quad(const float (&products)[kRows]) {
  const int q = lane_index() % 4;
  const bool upper = q >= 2, odd = q % 2 != 0;
  // Lanes two apart first: (p0 + p2) and (p1 + p3), of rows 0 and 1 in the lower lanes.
  float pair[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float kept = upper ? products[2 + i] : products[i], sent = upper ? products[i] : products[2 + i];
    pair[i] = __fadd_rn(kept, __shfl_xor_sync(kAllLanes, sent, 2));
  }
  const float kept = odd ? pair[1] : pair[0], sent = odd ? pair[0] : pair[1];
  return __fadd_rn(kept, __shfl_xor_sync(kAllLanes, sent, 1));
}

/// p of the lane's group of each row.
__device__ void multiply_groups(const WeightStep& weights, const uint4* digits, float (&products)[kRows]) {
  std::int32_t sums[kRows][kDigits] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t x[4 * kDigits];  // of two times eight inputs: two words of each digit
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      const uint4 words = digits[(3 * half + part) * kStepGroups];
      x[4 * part] = words.x, x[4 * part + 1] = words.y;
      x[4 * part + 2] = words.z, x[4 * part + 3] = words.w;
    }
#pragma unroll
    for (int eight = 0; eight < 2; ++eight) {
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        const uint4& codes = weights.codes[row];
        const std::uint32_t word =
            half == 0 ? (eight == 0 ? codes.x : codes.y) : (eight == 0 ? codes.z : codes.w);
        std::uint32_t first, second;
        twice_weights(word, first, second);
#pragma unroll
        for (int digit = 0; digit < kDigits; ++digit) {
          const int at = 2 * (eight * kDigits + digit);
          std::int32_t& sum = sums[row][digit];
          sum = __dp4a(static_cast<int>(first), static_cast<int>(x[at]), sum);
          sum = __dp4a(static_cast<int>(second), static_cast<int>(x[at + 1]), sum);
        }
      }
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    // Of 2 W: half of it is exact.
    const std::int32_t sum = (sums[row][2] * 256 + sums[row][1]) * 256 + sums[row][0];
    products[row] = __fmul_rn(0.5F * __int2float_rn(sum), e8m0_value(weights.scales[row]));
  }
}

/// By a warp: `task` and all that it then takes. `prepare()` is called once weights are under way.
template <class Tasks, class Prepare>
__device__ void multiply_routed(const Tasks& tasks, int task, const OneMemory& memory, Prepare prepare) {
  const int lane = lane_index(), num_inputs = tasks.num_inputs();
  const int num_slices = num_inputs / kSliceWidth, num_steps = steps_of(num_inputs);
  const int pitch = sums_pitch(num_inputs);
  float* const own_sum = memory.slice_sums + lane % 4 * pitch + lane / 4;

  TaskRows rows;
  int step = 0;  // of `task`, to be loaded next
  if (task < tasks.end()) rows = tasks.rows(task);
  const auto load = [&](WeightStep& to) {
    to.task = task;
    if (task >= tasks.end()) return;
    to.step = step;
    const int group = step * kStepGroups + lane;
    if (group < num_inputs / 32) {
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        const std::int64_t at = row % 2 * (num_inputs / 2) + group * kGroupBytes;
        to.codes[row] = __ldcg(reinterpret_cast<const uint4*>(rows.codes[row / 2] + at));
        to.scales[row] = __ldcg(rows.scales[row / 2] + row % 2 * (num_inputs / 32) + group);
      }
    }
    if (++step < num_steps) return;
    step = 0;
    task = tasks.claim();
    if (task < tasks.end()) rows = tasks.rows(task);
  };
  const auto use = [&](const WeightStep& weights) {
    const int column = tasks.column(weights.task);
    float products[kRows];
    multiply_groups(weights, memory.digits(column) + weights.step * kStepParts + lane, products);
    const float slice = slice_of_quad(products);
    if (weights.step * kStepSlices + lane / 4 < num_slices) own_sum[weights.step * kStepSlices] = slice;
    if (weights.step + 1 < num_steps) return;
    __syncwarp();
    float sum = 0.0F;
    if (lane < kRows) {
      const float *const scales = memory.scales(column), *const slices = memory.slice_sums + lane * pitch;
#pragma unroll 8
      for (int i = 0; i < num_slices; ++i) sum = add_slice(slices[i], scales[i], sum);
    }
    __syncwarp();
    tasks.take(weights.task, sum);
  };

  // Two steps under way.
  WeightStep even, odd;
  load(even);
  load(odd);
  prepare();
#pragma unroll 1
  while (even.task < tasks.end()) {
    use(even);
    load(even);
    if (odd.task >= tasks.end()) return;
    use(odd);
    load(odd);
  }
}

/// By a warp: 16 rows of the shared expert, of which lane 4 g + q has rows g and g + 8 in part. sums[h]: of
/// row g + 8 h. `prepare()` is called once weights are under way.
template <class Prepare>
__device__ void multiply_shared(const SharedRow (&rows)[2], int num_inputs, const OneMemory& memory,
                                Prepare prepare, float (&sums)[2]) {
  const int q = lane_index() % 4, num_slices = num_inputs / kSliceWidth;
  SharedRow::Slice slices[kSharedAhead][2];
  float factors[kSharedAhead][2];
  const auto load = [&](int slice, int to) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      slices[to][half] = rows[half].load(slice);
      factors[to][half] = rows[half].slice_factor(slice);
    }
  };
#pragma unroll
  for (int i = 0; i < kSharedAhead; ++i)
    if (i < num_slices) load(i, i);
  prepare();
  sums[0] = sums[1] = 0.0F;
#pragma unroll 1
  for (int first = 0; first < num_slices; first += kSharedAhead) {
#pragma unroll
    for (int i = 0; i < kSharedAhead; ++i) {
      const int slice = first + i;
      if (slice >= num_slices) break;
      float products[4] = {};
#pragma unroll
      for (int eighth = 0; eighth < 4; ++eighth) {
        std::uint32_t a[4], b[4];
        SharedRow::dequantise(slices[i][0], eighth, nullptr, a);
        SharedRow::dequantise(slices[i][1], eighth, nullptr, b);
        // All columns are the token.
        const uint4 x = memory.pairs[slice * kSlicePairs + 4 * eighth + q];
        ptx::mma_16x8x16(products, a[0], b[0], a[1], b[1], x.x, x.y);
        ptx::mma_16x8x16(products, a[2], b[2], a[3], b[3], x.z, x.w);
      }
      const float scale = memory.pair_scales[slice];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        sums[half] = fmaf(products[2 * half], scale * factors[i][half], sums[half]);
      if (slice + kSharedAhead < num_slices) load(slice + kSharedAhead, i);
    }
  }
}

/// By a warp, all of its block's tasks that it gets: those of the shared expert come first. `prepare()`
/// brings activations to shared memory; each warp calls it once.
template <class Tasks, class Prepare>
__device__ void multiply_one(const Tasks& tasks, const OneMemory& memory, Prepare prepare) {
  bool prepared = false;
  const auto prepare_once = [&] {
    if (!prepared) prepare();
    prepared = true;
  };
  int task = tasks.claim();
  while (task < tasks.num_shared()) {
    const SharedRow rows[2] = {tasks.shared_row(task, 0), tasks.shared_row(task, 1)};
    float sums[2];
    multiply_shared(rows, tasks.num_shared_inputs(), memory, prepare_once, sums);
    tasks.take_shared(task, sums);
    task = tasks.claim();
  }
  multiply_routed(tasks, task, memory, prepare_once);
}

/// What a block has of a number of things, of which blocks have equal parts.
struct Part {
  int begin, end;
  __device__ Part(std::int64_t count, int block, int num_blocks)
      : begin(static_cast<int>(count * block / num_blocks)),
        end(static_cast<int>(count * (block + 1) / num_blocks)) {}
};

/// Tasks are numbers from 0 on, which warps claim: the shared expert's first.
class BlockTasks {
 public:
  __device__ BlockTasks(const OneParams& p, const OnePlan& plan, int& next)
      : p_(p), plan_(plan), next_(next) {}

  [[nodiscard]] __device__ int num_shared() const { return num_shared_; }
  [[nodiscard]] __device__ int end() const { return end_; }
  [[nodiscard]] __device__ int claim() const {
    int task = 0;
    if (lane_index() == 0) task = atomicAdd(&next_, 1);
    return __shfl_sync(kAllLanes, task, 0);
  }

 protected:
  const OneParams& p_;
  const OnePlan& plan_;
  int num_shared_ = 0, end_ = 0;

 private:
  int& next_;
};

/// Tasks of the first kernel. Blocks have as many bytes of weights each.
class InnerTasks : public BlockTasks {
 public:
  __device__ InnerTasks(const OneParams& p, const OnePlan& plan, int& next) : BlockTasks(p, plan, next) {
    const Params& products = p.products;
    const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    const std::int64_t all_shared = num_shared_tasks(p);
    const std::int64_t all_routed = std::int64_t{plan.num_routed} * (products.inner_width / kInnerOfTask);
    // Of a task, for each 8 inputs.
    constexpr std::int64_t kSharedBytes = kSharedRows * 8, kRoutedBytes = kRows * 8 * 17 / 32;
    const std::int64_t all_bytes = all_shared * kSharedBytes + all_routed * kRoutedBytes;
    const bool fills = all_bytes / blocks >= (all_shared / blocks + 1) * kSharedBytes;
    const auto routed_before = [&](int index) {
      if (!fills) return all_routed * index / blocks;
      const std::int64_t shared = all_shared * index / blocks;
      return (all_bytes * index / blocks - shared * kSharedBytes) / kRoutedBytes;
    };
    const Part shared(all_shared, block, blocks);
    first_shared_ = shared.begin;
    num_shared_ = shared.end - shared.begin;
    first_routed_ = static_cast<int>(routed_before(block));
    end_ = num_shared_ + static_cast<int>(routed_before(block + 1)) - first_routed_;
  }
  [[nodiscard]] __device__ static int num_shared_tasks(const OneParams& p) {
    return p.has_shared ? p.products.shared_inner_width * 2 / kSharedRows : 0;
  }

  [[nodiscard]] __device__ int num_inputs() const { return p_.products.width; }
  [[nodiscard]] __device__ TaskRows rows(int task) const {
    const Place place(*this, task);
    return {p_.products.routed[0],          place.value,      p_.products.routed[1], place.value,
            plan_.places[place.assignment], p_.products.width};
  }
  /// All have the token.
  [[nodiscard]] __device__ static int column(int /*task*/) { return 0; }
  /// Lane q has the sum of row q.
  __device__ void take(int task, float sum) const {
    const int lane = lane_index();
    const float up = __shfl_down_sync(kAllLanes, sum, kInnerOfTask);
    if (lane >= kInnerOfTask) return;
    const Place place(*this, task);
    p_.inner[std::int64_t{place.assignment} * p_.products.inner_pitch + place.value + lane] =
        stated::activate(sum, up, p_.products.swiglu_limit, plan_.weights[place.assignment]);
  }

  [[nodiscard]] __device__ int num_shared_inputs() const { return p_.products.width; }
  [[nodiscard]] __device__ SharedRow shared_row(int task, int half) const {
    const int row = (first_shared_ + task) * (kSharedRows / 2) + lane_index() / 4;
    return {p_.products.shared[half], 0, row, p_.products.width};
  }
  __device__ void take_shared(int task, const float (&sums)[2]) const {
    const int row = (first_shared_ + task) * (kSharedRows / 2) + lane_index() / 4;
    if (lane_index() % 4 != 0) return;
    p_.inner[std::int64_t{p_.input.num_selected} * p_.products.inner_pitch + row] =
        BALEEN_ARCH::activate(sums[0], sums[1], clamp_limit(p_.products.swiglu_limit), 1.0F);
  }

 private:
  struct Place {
    int assignment, value;
    __device__ Place(const InnerTasks& tasks, int task) {
      const int number = tasks.first_routed_ + task - tasks.num_shared_;
      const int of_expert = tasks.p_.products.inner_width / kInnerOfTask;
      assignment = number / of_expert;
      value = number % of_expert * kInnerOfTask;
    }
  };

  int first_shared_ = 0, first_routed_ = 0;
};

/// Outputs that a block of the second kernel has.
struct BlockOutputs {
  int first, count;
  __device__ BlockOutputs(const OneParams& p, int num_blocks) {
    const Part rows(p.products.width / kRows, static_cast<int>(blockIdx.x), num_blocks);
    first = rows.begin * kRows;
    count = (rows.end - rows.begin) * kRows;
  }
};

/// y of all assignments, the shared expert's behind the others.
using OneOutputs = float[kMaxSlots + 1][kBlockOutputs];

/// Tasks of the second kernel, in which a block has all experts' rows of some outputs.
class DownTasks : public BlockTasks {
 public:
  __device__ DownTasks(const OneParams& p, const OnePlan& plan, int& next, const BlockOutputs& outputs,
                       OneOutputs& y)
      : BlockTasks(p, plan, next), outputs_(outputs), y_(y) {
    num_shared_ = p.has_shared ? (outputs.count + kSharedRows - 1) / kSharedRows : 0;
    end_ = num_shared_ + plan.num_routed * (outputs.count / kRows);
  }

  [[nodiscard]] __device__ int num_inputs() const { return p_.products.inner_width; }
  [[nodiscard]] __device__ TaskRows rows(int task) const {
    const int row = outputs_.first + output(task);
    return {p_.products.routed[2],  row, p_.products.routed[2], row + 2, plan_.places[column(task)],
            p_.products.inner_width};
  }
  [[nodiscard]] __device__ int column(int task) const {
    return (task - num_shared_) / (outputs_.count / kRows);
  }
  __device__ void take(int task, float sum) const {
    const int lane = lane_index();
    if (lane < kRows) {
      y_[column(task)][output(task) + lane] = p_.rounds_routed ? rounded_to_bf16(sum) : sum;
    }
  }

  [[nodiscard]] __device__ int num_shared_inputs() const { return p_.products.shared_inner_width; }
  /// Behind the block's last one that again.
  [[nodiscard]] __device__ SharedRow shared_row(int task, int half) const {
    const int own = min(task * kSharedRows + 8 * half + lane_index() / 4, outputs_.count - 1);
    return {p_.products.shared[2], 0, outputs_.first + own, p_.products.shared_inner_width};
  }
  __device__ void take_shared(int task, const float (&sums)[2]) const {
    if (lane_index() % 4 != 0) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int own = task * kSharedRows + 8 * half + lane_index() / 4;
      if (own < outputs_.count)
        y_[plan_.num_routed][own] = p_.rounds_shared ? rounded_to_bf16(sums[half]) : sums[half];
    }
  }

 private:
  [[nodiscard]] __device__ int output(int task) const {
    return (task - num_shared_) % (outputs_.count / kRows) * kRows;
  }

  const BlockOutputs& outputs_;
  OneOutputs& y_;
};

/// The columns of the shared expert's weights that this block's first tasks begin with.
__device__ void prefetch_shared(const OneParams& p) {
  const int width = p.products.width;
  const Part tasks(InnerTasks::num_shared_tasks(p), static_cast<int>(blockIdx.x),
                   static_cast<int>(gridDim.x));
  const int num_rows = (tasks.end - tasks.begin) * kSharedRows;
  if (num_rows == 0) return;
  const int lines = min(kSharedBytesAhead / num_rows, width) / ptx::kPrefetchBytes;  // of a row
  for (int i = static_cast<int>(threadIdx.x); i < num_rows * lines; i += kThreads) {
    const int row = i / lines, half = row % 2;
    ptx::prefetch_l2(p.products.shared[half].codes +
                     std::int64_t{tasks.begin * (kSharedRows / 2) + row / 2} * width +
                     i % lines * ptx::kPrefetchBytes);
  }
}

/// By a warp: rows of w2 that warps of the second kernel's block with this one's number begin with.
__device__ void prefetch_down(const OneParams& p, const OnePlan& plan, int num_blocks) {
  if (static_cast<int>(blockIdx.x) >= num_blocks) return;
  const BlockOutputs outputs(p, num_blocks);
  const int num_inputs = p.products.inner_width, units = outputs.count / kRows;
  const int code_bytes = kRows * num_inputs / 2, scale_bytes = kRows * num_inputs / 32;
  const int num_tasks = min(plan.num_routed * units, kDownBytesAhead / code_bytes);
  for (int task = warp_index(); task < num_tasks; task += kWarps) {
    const int row = outputs.first + task % units * kRows;
    const TaskRows rows(p.products.routed[2], row, p.products.routed[2], row, plan.places[task / units],
                        num_inputs);
    const auto prefetch = [&](const std::uint8_t* from, int bytes) {
      for (int at = lane_index() * ptx::kPrefetchBytes; at < bytes; at += kWarpLanes * ptx::kPrefetchBytes)
        ptx::prefetch_l2(from + at);
    };
    prefetch(rows.codes[0], code_bytes);
    prefetch(rows.scales[0], scale_bytes);
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
      store_digits(memory, 0, slice, words[i].x, scales[i]);
      if (p.has_shared) store_pairs(memory, slice, words[i].x, scales[i]);
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
      const Fp8Piece<4> piece = quantise_fp8_group(values);
      if (item < num_routed) {
        store_digits(memory, item / routed_slices, item % routed_slices, piece.codes[0], piece.scale);
      } else {
        store_pairs(memory, item - num_routed, piece.codes[0], piece.scale);
      }
    }
  }
}

/// Both products' first, on all multiprocessors. `down_blocks`: blocks of the second kernel.
__global__ void __launch_bounds__(kThreads, 1)
    stated_inner_one_kernel(const __grid_constant__ OneParams p, int down_blocks, NextBehindWait order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  __shared__ OnePlan plan;
  __shared__ int next_task;
  prefetch_shared(p);
  order.wait().launch_next();
  if (warp_index() == 0) plan_token(p, blockIdx.x == 0 ? p.row_of_slot : nullptr, plan);
  if (threadIdx.x == 0) next_task = 0;
  __syncthreads();
  const OneMemory memory(dynamic, 1, p.products.width, p.has_shared ? p.products.width : 0);
  multiply_one(InnerTasks(p, plan, next_task), memory, [&] {
    load_token(p, memory);
    meet();
  });
  prefetch_down(p, plan, down_blocks);
}

/// The other, and the sums. The token's experts were known when the first kernel let this one begin, so that
/// weights come while that one still runs.
__global__ void __launch_bounds__(kThreads, 1)
    stated_down_one_kernel(const __grid_constant__ OneParams p, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  __shared__ OnePlan plan;
  __shared__ int next_task;
  __shared__ OneOutputs y;
  order.launch_next();
  if (warp_index() == 0) plan_token(p, nullptr, plan);
  if (threadIdx.x == 0) next_task = 0;
  __syncthreads();
  const BlockOutputs outputs(p, static_cast<int>(gridDim.x));
  const OneMemory memory(dynamic, plan.num_routed, p.products.inner_width,
                         p.has_shared ? p.products.shared_inner_width : 0);
  multiply_one(DownTasks(p, plan, next_task, outputs, y), memory, [&] {
    ptx::wait_for_previous_kernel();
    load_inner(p, plan, memory);
    meet();
  });
  meet();
  const int own = static_cast<int>(threadIdx.x), column = outputs.first + own;
  if (own >= outputs.count) return;
  if (p.row_of_slot != nullptr) {
    const auto store = [&](const ExpertOutputs& to, int row, float value) {
      const std::int64_t at = std::int64_t{row} * p.products.width + column;
      if (to.partial != nullptr) {
        to.partial[at] = value;
      } else {
        to.rounded[at] = bf16_bits(value);
      }
    };
    for (int i = 0; i < plan.num_routed; ++i) store(p.products.y.routed, plan.rows[i], y[i][own]);
    if (p.has_shared) store(p.products.y.shared, p.shared_row, y[plan.num_routed][own]);
    return;
  }
  float sum = 0.0F;
  for (int i = 0; i < plan.num_routed + (p.has_shared ? 1 : 0); ++i) sum += y[i][own];
  if (p.out != nullptr) {
    p.out[column] = bf16_bits(sum);
  } else {
    p.sums[column] = sum;
  }
}

std::int64_t inner_bytes(const ExpertsArgs& args) {
  const auto width = static_cast<int>(args.x.extent(1));
  return OneMemory::bytes(1, width, args.shared != nullptr ? width : 0);
}
std::int64_t down_bytes(const ExpertsArgs& args) {
  return OneMemory::bytes(args.ids.extent(1), static_cast<int>(args.routed[0].w1.rows),
                          args.shared != nullptr ? static_cast<int>(args.shared->w1.rows) : 0);
}

}  // namespace

bool multiplies_one(const ExpertsArgs& args) {
  constexpr std::int64_t kMaxBytes = (99 << 10) - sizeof(OneOutputs) - sizeof(OnePlan) - 64;
  return args.x.extent(0) == 1 && args.ids.extent(1) <= kMaxSlots &&
         std::max(inner_bytes(args), down_bytes(args)) <= kMaxBytes;
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
  const int units = params.products.width / kRows, most = kBlockOutputs / kRows;
  const int down_blocks = std::min(units, std::max(context.num_sms, (units + most - 1) / most));
  launch_kernel(kStatedLaunch, stated_inner_one_kernel,
                {.grid = dim3(static_cast<unsigned>(context.num_sms)),
                 .threads = kThreads,
                 .shared_bytes = inner_bytes(args)},
                context.stream, params, down_blocks);
  launch_kernel(kStatedLaunch, stated_down_one_kernel,
                {.grid = dim3(static_cast<unsigned>(down_blocks)),
                 .threads = kThreads,
                 .shared_bytes = down_bytes(args)},
                context.stream, params);
  if (!adds_up) combine_experts(args, extents, scratch.plan, scratch.y, context);
}

}  // namespace baleen::BALEEN_ARCH
