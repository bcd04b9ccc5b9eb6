// Experts whose activations have a scale per 32, few tokens: w1 and w3 with the activation in one launch, w2
// and the sums in another. Warps of either have items of 16 rows, the first ones those of the shared expert,
// which take their bytes twice as fast: their rings have twice the stages.
#include "ops/experts/sm90/groups_few.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/scale_group.cuh"
#include "ops/experts/cuda/even_split.h"
#include "ops/experts/cuda/expert_activation.cuh"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/cuda/expert_fetch.h"
#include "ops/experts/cuda/expert_layout.h"
#include "ops/experts/sm90/groups_few_plan.cuh"
#include "ops/experts/sm90/groups_few_rows.cuh"

namespace baleen::sm90 {
namespace {

using namespace groups_few;

constexpr int kMinRoutedWarps = kMaxSlots / kWarpLanes;  // the plan takes a thread a slot
constexpr int kMaxRoutedWarps = 16, kMaxSharedWarps = 4;
constexpr int kLeastOfFullWarps = 12;  ///< for how many of kMaxRoutedWarps there must be shared memory
constexpr std::int64_t kMaxSharedBytes = 227 << 10;
/// Of two blocks on one multiprocessor.
constexpr std::int64_t kSharedBytesBesideEachOther = 226 << 10;
/// By which registers are given out: one token of DeepSeek-V4.1 has blocks of 288 and 576 threads on one of
/// two ranks, and a multiprocessor then has room for a block of either kernel.
constexpr int kThreadsBesideEachOther = 896;
static_assert((kMaxRoutedWarps + kMaxSharedWarps) * kWarpLanes <= kThreadsBesideEachOther);

/// How a kernel's work is cut: of the first one the shared expert's items, of the second one eights of
/// outputs.
struct FewShape {
  EvenSplit split;
  int routed_warps, shared_warps;

  [[nodiscard]] __host__ __device__ int num_warps() const { return routed_warps + shared_warps; }
};

__device__ int warp_index() { return static_cast<int>(threadIdx.x) / kWarpLanes; }

/// Activations that a lane has: eight, of group q and eighth e of a slice.
constexpr int kPieceValues = 8, kPieceLanes = kActivationGroup / kPieceValues;

/// By whole warps: rounds `values` and stores them as a piece of a column.
__device__ void store_piece(const ColumnMemory& columns, int slice, int column, const Fp8Piece<8>& piece,
                            bool exists) {
  if (!exists) return;
  const int place = lane_index() % kPieceLanes;
  std::uint32_t pairs[4];
  dequantised::dequantise_e4m3_words(
      piece.codes[0], piece.codes[1], pairs,
      dequantised::token_multiplier(piece.codes[0], piece.codes[1], piece.scale));
  columns.store(slice, column, place % 4, place / 4, pairs);
}
__device__ Fp8Piece<8> quantised(const uint4& words) {
  float values[kPieceValues];
  unpack_bf16(words, values);
  return quantise_fp8_group<kPieceValues, kSmallActivationGroup>(values);
}

/// By all warps: x, a column for each token. Past the first-level cache: perhaps before the wait.
__device__ void store_x(const FewParams& p, const ColumnMemory& columns) {
  const int num_slices = p.width / kActivationGroup, num_items = num_slices * p.num_tokens;
  const int step = static_cast<int>(blockDim.x) / kPieceLanes, lane = lane_index() % kPieceLanes;
#pragma unroll 2
  for (int first = 2 * warp_index(); first < num_items; first += step) {
    const int item = first + lane_index() / kPieceLanes;
    const int token = min(item, num_items - 1) / num_slices,
              slice = min(item, num_items - 1) - token * num_slices;
    const int at = slice * kActivationGroup + lane * kPieceValues;
    Fp8Piece<8> piece;
    if (p.x_fp8.codes != nullptr) {
      const uint2 codes =
          __ldcg(reinterpret_cast<const uint2*>(p.x_fp8.codes + std::int64_t{token} * p.width + at));
      piece.codes[0] = codes.x, piece.codes[1] = codes.y;
      piece.scale = __ldcg(p.x_fp8.scales + at / kSmallActivationGroup * p.x_fp8.scale_stride + token);
    } else {
      piece = quantised(__ldcg(reinterpret_cast<const uint4*>(p.x + std::int64_t{token} * p.width + at)));
    }
    store_piece(columns, slice, token, piece, item < num_items);
  }
}

/// By all warps: `num_columns` rows of inner values; `row(column)` of `p.inner`.
template <class Row>
__device__ void store_inner(const FewParams& p, const ColumnMemory& columns, int num_columns, int num_slices,
                            Row row) {
  const int num_items = num_slices * num_columns;
  const int step = static_cast<int>(blockDim.x) / kPieceLanes, lane = lane_index() % kPieceLanes;
#pragma unroll 2
  for (int first = 2 * warp_index(); first < num_items; first += step) {
    const int item = first + lane_index() / kPieceLanes;
    const int column = min(item, num_items - 1) / num_slices,
              slice = min(item, num_items - 1) - column * num_slices;
    const uint4 words =
        __ldcg(reinterpret_cast<const uint4*>(p.inner + std::int64_t{row(column)} * p.inner_pitch +
                                              slice * kActivationGroup + lane * kPieceValues));
    store_piece(columns, slice, column, quantised(words), item < num_items);
  }
}

/// Items of a block of the first kernel, eight inner values each. Blocks have about as many bytes: an item of
/// the shared expert counts as two of routed ones, where there are enough of those to make up for it.
class InnerItems {
 public:
  __device__ InnerItems(const FewParams& p, const EvenSplit& shared)
      : p_(p), shared_(shared), first_shared_(shared.begin(block())) {
    num_shared_ = shared.begin(block() + 1) - first_shared_;
  }
  /// Once it is known how many parts there are.
  __device__ void open(int num_parts) {
    const int all = num_parts * of_part();
    const int weight = all >= kSharedWeight * shared_.num_blocks ? kSharedWeight : 0;
    const int count = all + weight * shared_.extra;
    const int each = count / shared_.num_blocks, extra = count - each * shared_.num_blocks;
    const auto before = [&](int index) {
      return index * each + min(index, extra) - weight * min(index, shared_.extra);
    };
    first_routed_ = before(block());
    num_routed_ = before(block() + 1) - first_routed_;
  }
  /// Of routed items that a block may have.
  static int most_routed(const EvenSplit& shared, int num_items) {
    return EvenSplit(num_items + kSharedWeight * shared.extra, shared.num_blocks).most();
  }

  [[nodiscard]] __device__ int num_shared() const { return num_shared_; }
  [[nodiscard]] __device__ int num_routed() const { return num_routed_; }
  [[nodiscard]] __device__ int shared_value(int item) const { return (first_shared_ + item) * kHalfRows; }
  [[nodiscard]] __device__ int part(int item) const { return (first_routed_ + item) / of_part(); }
  [[nodiscard]] __device__ int value(int item) const {
    return (first_routed_ + item) % of_part() * kHalfRows;
  }

 private:
  static constexpr int kSharedWeight = 2;

  __device__ static int block() { return static_cast<int>(blockIdx.x); }
  [[nodiscard]] __device__ int of_part() const { return p_.inner_width / kHalfRows; }

  const FewParams& p_;
  EvenSplit shared_;
  int first_shared_, num_shared_, first_routed_ = 0, num_routed_ = 0;
};

/// How many of `count` items warp `warp` of `num_warps` has: `warp`, `warp` + `num_warps`, ...
__device__ int items_of_warp(int count, int warp, int num_warps) {
  return warp < count ? (count - warp - 1) / num_warps + 1 : 0;
}

/// Both products' first: a = silu(w1 x) (w3 x) of all slots.
template <int kStages>
__global__ void __launch_bounds__(kThreadsBesideEachOther, 1)
    inner_kernel(const __grid_constant__ FewParams p, const FewShape shape, NextBehindWait order) {
  extern __shared__ __align__(128) std::byte dynamic[];
  FewPlan& plan = *reinterpret_cast<FewPlan*>(dynamic);
  std::byte* const memory = dynamic + sizeof(FewPlan);
  const ColumnMemory columns(memory, p.num_tokens);
  std::byte* const rings = memory + ColumnMemory::bytes(p.width / kActivationGroup, p.num_tokens);
  constexpr int kSharedStages = 2 * kStages;
  const int warp = warp_index(), g = lane_index() / 4, q = lane_index() % 4;
  InnerItems items(p, shape.split);

  const auto make_plan_there = [&] {
    if (p.x_is_settled) store_x(p, columns);
    if (p.ids_are_settled) make_plan(p, true, plan);
    if (!p.ids_are_settled || plan.waits) {
      (void)order.wait();
      make_plan(p, false, plan);
    }
    items.open(plan.num_parts);
  };
  // The next kernel's weights come behind the first ones of this.
  const auto prepare = [&] {
    order.wait().launch_next();
    if (!p.x_is_settled) store_x(p, columns);
    block_barrier();
  };
  // `acc`: of token `token`, which lanes with its q have.
  const auto store = [&](const float(&acc)[4], int token, int row, int first_value, float weight) {
    if (token / 2 != q) return;
    const bool odd = token % 2 != 0;
    p.inner[std::int64_t{row} * p.inner_pitch + first_value + g] =
        activate(odd ? acc[1] : acc[0], odd ? acc[3] : acc[2], clamp_limit(p.swiglu_limit), weight);
  };
  const ColumnMemory::Reader column(columns, min(g, p.num_tokens - 1));

  if (warp < shape.shared_warps) {
    const int num_items = items_of_warp(items.num_shared(), warp, shape.shared_warps);
    const auto value = [&](int item) { return items.shared_value(warp + item * shape.shared_warps); };
    const auto rows = [&](int item, int half) {
      return rows_of<WeightFormat::kFp8x32>(p.shared[half], 0, value(item), p.width);
    };
    // Its weights are known before the ids are.
    RowStream<WeightFormat::kFp8x32, kSharedStages, decltype(rows)> stream(
        rings + warp * ring_bytes(kSharedStages), p.width, num_items, rows);
    stream.ask_for_all();
    make_plan_there();
    prepare();
    for (int item = 0; item < num_items; ++item) {
      float acc[4];
      stream.multiply(column, acc);
      for (int token = 0; token < p.num_tokens; ++token)
        store(acc, token, p.num_slots() + token, value(item), 1.0F);
    }
    return;
  }
  make_plan_there();
  const int own = warp - shape.shared_warps;
  const int num_items = items_of_warp(items.num_routed(), own, shape.routed_warps);
  const auto number = [&](int item) { return own + item * shape.routed_warps; };
  const auto rows = [&](int item, int half) {
    const int place = plan.place[plan.first_column[items.part(number(item))]];
    return rows_of<WeightFormat::kFp4>(p.routed[half], place, items.value(number(item)), p.width);
  };
  RowStream<WeightFormat::kFp4, kStages, decltype(rows)> stream(
      rings + shape.shared_warps * ring_bytes(kSharedStages) + own * ring_bytes(kStages), p.width, num_items,
      rows);
  prepare();
  for (int item = 0; item < num_items; ++item) {
    float acc[4];
    stream.multiply(column, acc);
    const int part = items.part(number(item)), value = items.value(number(item));
    for (int of_part = plan.first_column[part]; of_part < plan.first_column[part + 1]; ++of_part) {
      const int slot = plan.slot[of_part];
      store(acc, slot / p.num_selected, slot, value, plan.weight[of_part]);
    }
  }
}

/// What a block of the second kernel has in shared memory, in this order.
struct DownMemory {
  int num_slots, num_tokens, num_slices, num_shared_slices, num_outputs;

  [[nodiscard]] __host__ __device__ int routed_bytes() const {
    return ColumnMemory::bytes(num_slices, num_slots);
  }
  [[nodiscard]] __host__ __device__ int shared_bytes() const {
    return ColumnMemory::bytes(num_shared_slices, num_tokens);
  }
  /// y of all slots' columns, then of the shared expert's, [num_outputs] each.
  [[nodiscard]] __host__ __device__ int y_bytes() const {
    return (num_slots + num_tokens) * num_outputs * static_cast<int>(sizeof(float));
  }
  [[nodiscard]] __host__ __device__ int bytes() const { return routed_bytes() + shared_bytes() + y_bytes(); }
};

/// The other: y = w2 a of all slots, and their sums, of a block's outputs. The experts were known when the
/// first kernel let this one begin, so that weights come while that one still runs.
template <int kStages>
__global__ void __launch_bounds__(kThreadsBesideEachOther, 1)
    down_kernel(const __grid_constant__ FewParams p, const FewShape shape, const DownMemory layout,
                NextBehindWait order) {
  extern __shared__ __align__(128) std::byte dynamic[];
  FewPlan& plan = *reinterpret_cast<FewPlan*>(dynamic);
  std::byte* const memory = dynamic + sizeof(FewPlan);
  const ColumnMemory columns(memory, layout.num_slots),
      shared_columns(memory + layout.routed_bytes(), layout.num_tokens);
  auto* const y = reinterpret_cast<float*>(memory + layout.routed_bytes() + layout.shared_bytes());
  std::byte* const rings = memory + layout.bytes();
  constexpr int kSharedStages = 2 * kStages;
  const int warp = warp_index(), g = lane_index() / 4, q = lane_index() % 4;
  const int first_output = shape.split.begin(static_cast<int>(blockIdx.x)) * kHalfRows,
            num_eights = shape.split.begin(static_cast<int>(blockIdx.x) + 1) - first_output / kHalfRows;
  const auto prepare = [&] {
    order.wait().launch_next();
    store_inner(p, columns, plan.num_columns, layout.num_slices,
                [&](int column) { return plan.slot[column]; });
    if (p.has_shared)
      store_inner(p, shared_columns, p.num_tokens, layout.num_shared_slices,
                  [&](int token) { return p.num_slots() + token; });
    block_barrier();
  };
  // Of this lane's row of an eight of outputs; `column` counts slots, then tokens.
  const auto store = [&](int column, int eight, float value, bool rounds) {
    y[column * layout.num_outputs + eight * kHalfRows + g] = rounds ? rounded_to_bf16(value) : value;
  };

  make_plan(p, false, plan);
  if (warp < shape.shared_warps) {
    const int num_items = p.has_shared ? items_of_warp((num_eights + 1) / 2, warp, shape.shared_warps) : 0;
    const auto eight = [&](int item, int half) { return 2 * (warp + item * shape.shared_warps) + half; };
    const auto rows = [&](int item, int half) {
      if (eight(item, half) >= num_eights) return RowsPlace();
      return rows_of<WeightFormat::kFp8x32>(p.shared[2], 0, first_output + eight(item, half) * kHalfRows,
                                            p.shared_inner_width);
    };
    RowStream<WeightFormat::kFp8x32, kSharedStages, decltype(rows)> stream(
        rings + warp * ring_bytes(kSharedStages), p.shared_inner_width, num_items, rows);
    prepare();
    const ColumnMemory::Reader column(shared_columns, min(g, p.num_tokens - 1));
    for (int item = 0; item < num_items; ++item) {
      float acc[4];
      stream.multiply(column, acc);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 2 * q + i % 2, half = i / 2;
        if (token < p.num_tokens && eight(item, half) < num_eights)
          store(layout.num_slots + token, eight(item, half), acc[i], p.rounds_shared);
      }
    }
  } else {
    const int own = warp - shape.shared_warps, num_pairs = (plan.num_parts + 1) / 2;
    const int num_items = items_of_warp(num_pairs * num_eights, own, shape.routed_warps);
    // Two parts and the same outputs of both: neighbouring items have the same parts.
    const auto pair = [&](int item) { return (own + item * shape.routed_warps) / num_eights; };
    const auto eight = [&](int item) { return (own + item * shape.routed_warps) % num_eights; };
    const auto rows = [&](int item, int half) {
      const int part = 2 * pair(item) + half;
      if (part >= plan.num_parts) return RowsPlace();
      return rows_of<WeightFormat::kFp4>(p.routed[2], plan.place[plan.first_column[part]],
                                         first_output + eight(item) * kHalfRows, p.inner_width);
    };
    RowStream<WeightFormat::kFp4, kStages, decltype(rows)> stream(
        rings + shape.shared_warps * ring_bytes(kSharedStages) + own * ring_bytes(kStages), p.inner_width,
        num_items, rows);
    prepare();
    for (int item = 0; item < num_items; ++item) {
      const int part = 2 * pair(item), first = plan.first_column[part],
                of_first = plan.first_column[part + 1] - first,
                count = plan.first_column[min(part + 2, plan.num_parts)] - first;
      float acc[4];
      stream.multiply(ColumnMemory::Reader(columns, first + min(g, count - 1)), acc);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = 2 * q + i;
        if (column < count)
          store(first + column, eight(item), column < of_first ? acc[i] : acc[2 + i], p.rounds_routed);
      }
    }
  }
  __syncthreads();
  const int num_outputs = num_eights * kHalfRows;
  for (int i = static_cast<int>(threadIdx.x); i < num_outputs * p.num_tokens;
       i += static_cast<int>(blockDim.x)) {
    const int token = i / num_outputs, output = i - token * num_outputs;
    float sum = 0.0F;
    for (int column = 0; column < plan.num_columns; ++column) {
      if (plan.slot[column] / p.num_selected == token) sum += y[column * layout.num_outputs + output];
    }
    if (p.has_shared) sum += y[(layout.num_slots + token) * layout.num_outputs + output];
    const std::int64_t at = std::int64_t{token} * p.width + first_output + output;
    if (p.out != nullptr) {
      p.out[at] = bf16_bits(sum);
    } else {
      p.sums[at] = sum;
    }
  }
}

constexpr int kManyStages = 4, kFewStages = 2;

struct FewLaunch {
  FewShape shape;
  std::int64_t memory_bytes;  ///< beside the plan and the rings

  [[nodiscard]] std::int64_t bytes(int num_stages) const {
    return static_cast<std::int64_t>(sizeof(FewPlan)) + memory_bytes +
           shape.routed_warps * ring_bytes(num_stages) + shape.shared_warps * ring_bytes(2 * num_stages);
  }
  [[nodiscard]] bool fits(int num_stages) const { return bytes(num_stages) <= kMaxSharedBytes; }
};

/// Of a call's sizes.
struct FewExtents {
  int num_tokens, num_slots, width, inner_width, shared_inner_width;  ///< the last one 0: no shared expert

  explicit FewExtents(const ExpertsArgs& args)
      : num_tokens(static_cast<int>(args.x.extent(0))),
        num_slots(static_cast<int>(args.x.extent(0) * args.ids.extent(1))),
        width(static_cast<int>(args.x.extent(1))),
        inner_width(static_cast<int>(args.routed[0].w1.rows)),
        shared_inner_width(args.shared != nullptr ? static_cast<int>(args.shared->w1.rows) : 0) {}

  [[nodiscard]] FewLaunch inner(int num_sms) const {
    const EvenSplit shared(shared_inner_width / kHalfRows, num_sms);
    const int most = InnerItems::most_routed(shared, num_slots * (inner_width / kHalfRows));
    return {.shape = {.split = shared,
                      .routed_warps = std::clamp(most, kMinRoutedWarps, kMaxRoutedWarps),
                      .shared_warps = std::min(shared.most(), kMaxSharedWarps)},
            .memory_bytes = ColumnMemory::bytes(width / kActivationGroup, num_tokens)};
  }
  [[nodiscard]] DownMemory down_memory(const EvenSplit& outputs) const {
    return {.num_slots = num_slots,
            .num_tokens = num_tokens,
            .num_slices = inner_width / kActivationGroup,
            .num_shared_slices = shared_inner_width / kActivationGroup,
            .num_outputs = outputs.most() * kHalfRows};
  }
  [[nodiscard]] FewLaunch down(int num_sms) const {
    const int eights = width / kHalfRows;
    const EvenSplit outputs(eights, std::min(eights, num_sms));
    const int most = (num_slots + 1) / 2 * outputs.most();
    FewLaunch launch{
        .shape = {.split = outputs,
                  .routed_warps = std::clamp(most, kMinRoutedWarps, kMaxRoutedWarps),
                  .shared_warps =
                      shared_inner_width > 0 ? std::min((outputs.most() + 1) / 2, kMaxSharedWarps) : 0},
        .memory_bytes = down_memory(outputs).bytes()};
    // Inner values of many slots leave room for a few rings less.
    while (!launch.fits(kFewStages) && launch.shape.routed_warps > kLeastOfFullWarps)
      --launch.shape.routed_warps;
    return launch;
  }
};

/// Whether the scales of all rows lie where words can be read.
bool are_aligned(const Matrix& matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.scales) % 4 == 0 && matrix.scale_distance % 4 == 0;
}

template <class Kernel, class... More>
void launch(const char* name, Kernel kernel, const FewLaunch& how, int num_stages, CudaContext& context,
            const More&... more) {
  launch_kernel(name, kernel,
                {.grid = dim3(static_cast<unsigned>(how.shape.split.num_blocks)),
                 .threads = how.shape.num_warps() * kWarpLanes,
                 .shared_bytes = how.bytes(num_stages)},
                context.stream, more...);
}

}  // namespace

std::optional<Reason> why_not_few_groups(const ExpertsArgs& args, int num_sms) {
  if (const auto why = why_not_groups_of_32(args)) return why;
  if (args.routed[0].w1.format != WeightFormat::kFp4) return "takes routed experts in FP4; these are others";
  const std::int64_t num_tokens = args.x.extent(0), num_selected = args.ids.extent(1);
  if (num_tokens > kMaxFewGroupTokens || num_tokens * num_selected > kMaxFewGroupSlots)
    return "takes up to eight tokens and 64 token-expert assignments";
  if (num_selected == 0) return "takes tokens' routed experts; there are none";
  const FewExtents extents(args);
  // Copies by a guess may have SMs when the call comes.
  num_sms = std::max(1, num_sms - kGuessBlocks);
  if (!extents.inner(num_sms).fits(kFewStages) || !extents.down(num_sms).fits(kFewStages))
    return "has room for fewer tokens, or for shorter rows";
  using E = ExpertWeights;
  for (const auto which : {&E::w1, &E::w3, &E::w2}) {
    if (!are_aligned(dequantised::describe(args.routed, which)) ||
        (args.shared != nullptr && !are_aligned(dequantised::describe({args.shared, 1}, which))))
      return "reads scales by words, and these do not lie so";
  }
  return std::nullopt;
}

std::int64_t few_group_inner_values(std::int64_t num_tokens, std::int64_t num_selected,
                                    std::int64_t inner_width) {
  return num_tokens * (num_selected + 1) * inner_width;
}

void few_group_experts(const ExpertsArgs& args, Bf16Bits* inner, CudaContext& context) {
  using E = ExpertWeights;
  const auto routed = [&](WeightMatrix E::*which) { return dequantised::describe(args.routed, which); };
  const auto shared = [&](WeightMatrix E::*which) {
    return args.shared != nullptr ? dequantised::describe({args.shared, 1}, which) : Matrix{};
  };
  BALEEN_CHECK(!args.x_fp8 || args.x_fp8.group == kSmallActivationGroup);
  const FewExtents extents(args);
  const bool fetches = args.places.copied != nullptr;
  const FewParams params{
      .routed = {routed(&E::w1), routed(&E::w3), routed(&E::w2)},
      .shared = {shared(&E::w1), shared(&E::w3), shared(&E::w2)},
      .places = device_places(args),
      .places_before = fetches ? args.places.of_expert : nullptr,
      .ids = args.ids.data(),
      .weights = args.weights.data(),
      .x = args.x.bf16().data(),
      .x_fp8 = args.x_fp8,
      .x_is_settled = context.stream.is_settled(
          Accesses().read(args.x).read(args.x_fp8, args.x.extent(0), args.x.extent(1))),
      .ids_are_settled = fetches && context.stream.is_settled(Accesses().read(args.ids, args.weights)),
      .inner = inner,
      .out = args.partial_sums ? nullptr : args.out.bf16().data(),
      .sums = args.partial_sums ? args.out.data() : nullptr,
      .width = extents.width,
      .inner_width = extents.inner_width,
      .shared_inner_width = extents.shared_inner_width,
      .inner_pitch = static_cast<std::int32_t>(inner_pitch_of(args)),
      .num_tokens = extents.num_tokens,
      .num_selected = static_cast<std::int32_t>(args.ids.extent(1)),
      .first_expert = static_cast<std::int32_t>(args.first_expert),
      .num_experts = static_cast<std::int32_t>(args.routed.size()),
      .has_shared = args.shared != nullptr,
      .rounds_routed = !args.split.routed,
      .rounds_shared = !args.split.shared,
      .swiglu_limit = args.swiglu_limit};
  // A copying block and one of these have no room beside each other, and copies by a guess go on for long.
  const bool copies = !args.hints.next.ids.empty() && context.num_branch_sms == 0;
  const int num_sms = std::max(1, context.num_sms - (copies ? kGuessBlocks : 0));
  const FewLaunch first = extents.inner(num_sms), second = extents.down(num_sms);
  BALEEN_CHECK(first.fits(kFewStages) && second.fits(kFewStages));
  // More stages where the second kernel's blocks have room beside these all the same.
  const bool many = first.bytes(kManyStages) + second.bytes(kFewStages) <= kSharedBytesBesideEachOther;
  launch("multiplying few tokens' experts, w1 and w3",
         many ? inner_kernel<kManyStages> : inner_kernel<kFewStages>, first, many ? kManyStages : kFewStages,
         context, params, first.shape);
  context.stream.expect_earlier_operations_done();
  launch("multiplying few tokens' experts, w2", down_kernel<kFewStages>, second, kFewStages, context, params,
         second.shape, extents.down_memory(second.shape.split));
}

}  // namespace baleen::sm90
