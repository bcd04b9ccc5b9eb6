// Experts: dispatch, products, combination (expert_dispatch.h, expert_products.h), and what they share.
//
// Where chosen experts may lie in the host's memory, the products are two launches: of the experts in the
// device's memory while the others come, then of those. (A single token's wait until they have come.) What
// the next block's tokens will probably choose comes beside the rest of this block and attention.
//
//     stream   dispatch ── products, resident ──┬── products, copied ── combination ── ...
//     branch   fetch chosen experts ────────────┴── fetch the next block's, as guessed ── fetch chosen ...
#include <algorithm>

#include "base/check.h"
#include "cuda/stream_branch.h"
#include "cuda/tensor_map.h"
#include "ops/experts/sm90/expert_dispatch.h"
#include "ops/experts/sm90/expert_fetch.h"
#include "ops/experts/sm90/expert_four_tokens.h"
#include "ops/experts/sm90/expert_products.h"
#include "ops/experts/sm90/expert_weights.h"
#include "ops/experts/sm90/experts.h"
#include "ops/experts/sm90/experts_bf16.h"

namespace baleen::sm90 {
namespace {

constexpr std::int64_t kMaxFewTokens = 64;
constexpr std::int64_t kMaxFewAssignments = 512;
constexpr int kBlock = 128;          // values that share an activation scale
constexpr int kStageRowBytes = 128;  // of a weight row, in one box

bool are_few(std::int64_t num_tokens, std::int64_t num_selected) {
  return num_tokens <= kMaxFewTokens && num_tokens * num_selected <= kMaxFewAssignments;
}

const ProductVariant& variant_for(std::int64_t num_tokens, std::int64_t num_selected) {
  return are_few(num_tokens, num_selected) ? kFewTokens : kManyTokens;
}

/// Whether the next block's experts are fetched by a guess. They come on the branch, behind those of this
/// block; the next call takes them in.
bool guesses(const ExpertsArgs& args) { return !args.next.ids.empty(); }

WeightFormat format_of(const ExpertsArgs& args) { return args.routed[0].w1.format; }

/// From row to row of inner values: the larger of the inner widths of routed and shared experts.
std::int64_t inner_pitch_of(const ExpertsArgs& args) {
  return std::max(args.routed[0].w1.rows, args.shared != nullptr ? args.shared->w1.rows : 0);
}

struct ExpertScratch {
  DispatchPlan plan;
  Fp8Rows rows;  ///< of x
  Fp8Rows inner;
  Bf16Bits* inner_bf16 = nullptr;
  AssignmentOutputs y;
};

/// Counts what an arena would give.
struct ScratchCounter {
  std::int64_t bytes = 0;
  template <class T>
  T* allocate(std::int64_t count) {
    bytes += Arena::bytes_for<T>(count);
    return nullptr;
  }
};

template <class Source>
TileList lay_out_tiles(Source& source, const DispatchExtents& extents) {
  return {.tiles = source.template allocate<TokenTile>(extents.max_tiles()),
          .count = source.template allocate<std::int32_t>(1)};
}

/// `copies`: some experts may be copied.
template <class Source>
DispatchPlan lay_out_plan(Source& source, const DispatchExtents& extents, bool copies,
                          std::int64_t num_counters) {
  return {.lists = {.resident = lay_out_tiles(source, extents),
                    .copied = copies ? lay_out_tiles(source, extents) : TileList{}},
          .row_of_slot = source.template allocate<std::int32_t>(extents.num_slots()),
          .row_weight = source.template allocate<float>(extents.num_rows()),
          .counters = source.template allocate<std::int32_t>(num_counters),
          .num_counters = num_counters};
}

template <class Source>
Fp8Rows lay_out_rows(Source& source, std::int64_t num_rows, std::int64_t width) {
  const std::int64_t stride = (num_rows + 3) / 4 * 4;
  return {.codes = source.template allocate<std::uint8_t>(num_rows * width),
          .scales = source.template allocate<float>(width / kBlock * stride),
          .scale_stride = stride};
}

template <class Source>
ExpertOutputs lay_out_outputs(Source& source, std::int64_t first_row, std::int64_t num_rows,
                              std::int64_t width, bool is_split) {
  ExpertOutputs y{.first_row = static_cast<std::int32_t>(first_row)};
  if (is_split) {
    y.partial = source.template allocate<float>(num_rows * width);
  } else {
    y.rounded = source.template allocate<Bf16Bits>(num_rows * width);
  }
  return y;
}

/// One array for all where they have one type.
template <class Source>
AssignmentOutputs lay_out_outputs(Source& source, const DispatchExtents& extents, std::int64_t width,
                                  ExpertSplit split) {
  if (split.routed == split.shared) {
    const ExpertOutputs all = lay_out_outputs(source, 0, extents.num_rows(), width, split.routed);
    return {.routed = all, .shared = all};
  }
  const std::int64_t first_shared = extents.first_shared_row();
  return {.routed = lay_out_outputs(source, 0, first_shared, width, split.routed),
          .shared =
              lay_out_outputs(source, first_shared, extents.num_rows() - first_shared, width, split.shared)};
}

/// Counters of a list of tiles.
std::int64_t list_counters(const ProductVariant& variant, const DispatchExtents& extents,
                           std::int64_t inner_width) {
  return extents.max_tiles() * (1 + (variant.whole_blocks ? 0 : inner_width / kBlock));
}

/// For FP4 and FP8 weights.
template <class Source>
ExpertScratch lay_out_quantised(Source& source, const ProductVariant& variant, const DispatchExtents& extents,
                                std::int64_t width, std::int64_t inner_width, ExpertSplit split,
                                bool copies) {
  const bool whole_blocks = variant.whole_blocks;
  return {
      .plan = lay_out_plan(source, extents, copies,
                           (copies ? 2 : 1) * list_counters(variant, extents, inner_width)),
      .rows = lay_out_rows(source, extents.num_rows(), width),
      .inner = lay_out_rows(source, extents.num_rows(), inner_width),
      .inner_bf16 = source.template allocate<Bf16Bits>(whole_blocks ? 0 : extents.num_rows() * inner_width),
      .y = lay_out_outputs(source, extents, width, split)};
}

/// For BF16 weights.
template <class Source>
ExpertScratch lay_out_bf16(Source& source, const DispatchExtents& extents, std::int64_t width,
                           std::int64_t inner_width, ExpertSplit split) {
  return {.plan = lay_out_plan(source, extents, false, 0),
          .inner_bf16 = source.template allocate<Bf16Bits>(extents.num_rows() * inner_width),
          .y = lay_out_outputs(source, extents, width, split)};
}

void check_matrix(const WeightMatrix& matrix, WeightFormat format, std::int64_t rows, std::int64_t cols) {
  BALEEN_CHECK(matrix.format == format);
  BALEEN_CHECK_EQ(matrix.rows, rows);
  BALEEN_CHECK_EQ(matrix.cols, cols);
  BALEEN_CHECK_EQ(reinterpret_cast<std::uintptr_t>(matrix.data) % 16, 0);
}

void check_expert(const ExpertWeights& expert, WeightFormat format, std::int64_t width,
                  std::int64_t inner_width) {
  check_matrix(expert.w1, format, inner_width, width);
  check_matrix(expert.w3, format, inner_width, width);
  check_matrix(expert.w2, format, width, inner_width);
}

/// Where kernels find experts' weights once they have come. Tensor copies of weights of Flash's size from
/// pinned memory gave wrong bits now and then, loads by address never did.
const std::int32_t* device_places(const ExpertsArgs& args) {
  return args.places.copied != nullptr ? args.places.copied : args.places.of_expert;
}

ExpertMatrix describe(std::span<const ExpertWeights> experts, std::int64_t num_places,
                      WeightMatrix ExpertWeights::*which, int half_rows) {
  const WeightMatrix& first = experts[0].*which;
  const bool fp4 = first.format == WeightFormat::kFp4;
  const std::int64_t row_bytes = first.row_bytes();
  if (fp4) BALEEN_CHECK_EQ(reinterpret_cast<std::uintptr_t>(first.group_scales) % 16, 0);
  return {.map = make_tensor_map(first.data, num_places, expert_distance(experts, which), first.rows,
                                 row_bytes, row_bytes, half_rows, kStageRowBytes, TileSwizzle::k128B),
          .scales = fp4 ? static_cast<const void*>(first.group_scales) : first.block_scales,
          .scale_distance = expert_scale_distance(experts, which)};
}

ExpertMatrices describe(std::span<const ExpertWeights> experts, std::int64_t num_places, int half_rows) {
  return {.gate = describe(experts, num_places, &ExpertWeights::w1, half_rows),
          .up = describe(experts, num_places, &ExpertWeights::w3, half_rows),
          .down = describe(experts, num_places, &ExpertWeights::w2, half_rows)};
}

Fp8RowMaps describe(const Fp8Rows& rows, std::int64_t num_rows, std::int64_t width,
                    const ProductVariant& variant) {
  constexpr std::int64_t kScaleBytes = sizeof(float);
  const auto codes = [&](int box_tokens) {
    return make_tensor_map(rows.codes, num_rows, width, width, box_tokens, kBlock, TileSwizzle::k128B);
  };
  return {.codes = codes(variant.box_tokens),
          .small_codes = codes(variant.small_box_tokens),
          .scales = make_tensor_map(
              rows.scales, width / kBlock, rows.scale_stride * kScaleBytes, rows.scale_stride * kScaleBytes,
              1, variant.scale_box_tokens * static_cast<int>(kScaleBytes), TileSwizzle::kNone)};
}

/// The products of the resident experts, or of the copied ones.
ExpertProducts describe(const ExpertsArgs& args, const ProductVariant& variant,
                        const DispatchExtents& extents, const ExpertScratch& scratch, bool copied) {
  const ExpertWeights& first = args.routed[0];
  const std::int64_t width = first.w1.cols, inner_width = first.w1.rows, inner_pitch = inner_pitch_of(args);
  const std::int64_t num_places = args.places.of_expert == nullptr ? extents.num_experts : args.places.count;
  const ExpertMatrices routed = describe(args.routed, num_places, variant.half_rows);
  const TileList& list = copied ? scratch.plan.lists.copied : scratch.plan.lists.resident;
  std::int32_t* const counters =
      scratch.plan.counters + (copied ? list_counters(variant, extents, inner_pitch) : 0);
  return {.routed = routed,
          .shared = args.shared != nullptr ? describe({args.shared, 1}, 1, variant.half_rows) : routed,
          .places = device_places(args),
          .x_maps = describe(scratch.rows, extents.num_rows(), width, variant),
          .inner_maps = describe(scratch.inner, extents.num_rows(), inner_pitch, variant),
          .plan_input = PlanInput(args, extents),
          .takes_copied = copied,
          .num_tiles = list.count,
          .tiles = list.tiles,
          .row_weight = scratch.plan.row_weight,
          .blocks_ready = counters,
          .parts_done = counters + extents.max_tiles(),
          .inner = scratch.inner,
          .inner_bf16 = scratch.inner_bf16,
          .y = scratch.y,
          .width = static_cast<std::int32_t>(width),
          .inner_width = static_cast<std::int32_t>(inner_width),
          .shared_inner_width =
              static_cast<std::int32_t>(args.shared != nullptr ? args.shared->w1.rows : inner_width),
          .inner_pitch = static_cast<std::int32_t>(inner_pitch),
          .num_experts = static_cast<std::int32_t>(extents.num_experts),
          .swiglu_limit = args.swiglu_limit};
}

DispatchExtents extents_of(const ExpertsArgs& args, int tile_tokens) {
  return {.num_tokens = args.x.extent(0),
          .num_selected = args.ids.extent(1),
          .num_experts = static_cast<std::int64_t>(args.routed.size()),
          .has_shared = args.shared != nullptr,
          .tile_tokens = tile_tokens};
}

/// What all variants ask of the arguments, which have tokens; the shared expert's weights have
/// `shared_format`.
void check_arguments(const ExpertsArgs& args, WeightFormat shared_format) {
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK_EQ(args.ids.extent(0), args.x.extent(0));
  BALEEN_CHECK(args.x.dense() && args.ids.dense() && args.weights.dense() && args.out.dense());
  const ExpertWeights& first = args.routed[0];
  const std::int64_t width = first.w1.cols, inner_width = first.w1.rows;
  BALEEN_CHECK_EQ(args.x.extent(1), width);
  BALEEN_CHECK_EQ(width % kBlock, 0);
  BALEEN_CHECK_EQ(inner_width % kBlock, 0);
  check_expert(first, first.w1.format, width, inner_width);
  if (args.shared != nullptr) {
    BALEEN_CHECK_EQ(args.shared->w1.rows % kBlock, 0);
    if (!args.routed_is_split && !args.shared_is_split) BALEEN_CHECK_EQ(args.shared->w1.rows, inner_width);
    check_expert(*args.shared, shared_format, width, args.shared->w1.rows);
  }
  BALEEN_CHECK(args.partial_sums || (!args.routed_is_split && !args.shared_is_split));
}

void experts_by(const ProductVariant& variant, const ExpertsArgs& args, CudaContext& context) {
  if (args.x.extent(0) == 0) return;
  check_arguments(args, WeightFormat::kFp8);
  const DispatchExtents extents = extents_of(args, variant.max_tokens);
  const ExpertWeights& first = args.routed[0];
  const ScratchScope scope(context.scratch);
  const bool copies = args.places.copied != nullptr;
  const ExpertScratch scratch = lay_out_quantised(context.scratch, variant, extents, first.w1.cols,
                                                  inner_pitch_of(args), args.split(), copies);
  if (variant.max_planned_tiles > 0) BALEEN_CHECK(extents.max_tiles() <= variant.max_planned_tiles);
  const auto multiply = [&](bool copied, const ProductLaunch& how) {
    variant.launch(describe(args, variant, extents, scratch, copied), first.w1.format,
                   args.routed_is_split || args.shared_is_split, how, context);
  };
  if (copies) {
    BALEEN_CHECK(context.branch != nullptr);
    fetch_chosen_experts(args, context.branch->fork(context.stream), false);
  }
  dispatch_experts(args, extents, scratch.plan, scratch.rows, context);
  multiply(false, {.num_blocks = context.num_sms - (copies ? kFetchBlocks : 0), .early = true});
  if (copies) {
    context.branch->join(context.stream);
    if (guesses(args)) fetch_guessed_experts(args, context.branch->reopen());
    multiply(true, {.num_blocks = context.num_sms - (guesses(args) ? kGuessBlocks : 0), .early = false});
  }
  combine_experts(args, extents, scratch.plan, scratch.y, context);
}

}  // namespace

std::int64_t experts_scratch_bytes(std::int64_t num_rows, std::int64_t num_selected, std::int64_t width,
                                   std::int64_t inner_width, std::int64_t num_experts) {
  const std::int64_t few_rows =
      std::min({num_rows, kMaxFewTokens, std::max<std::int64_t>(1, kMaxFewAssignments / num_selected)});
  // What a variant needs grows with the rows.
  const std::int64_t streamed_rows = std::min(num_rows, kMaxStreamedTokens);
  std::int64_t most =
      Arena::bytes_for<Bf16Bits>(four_token_inner_values(streamed_rows, num_selected, inner_width));
  const auto count = [&](const ProductVariant& variant, std::int64_t rows) {
    const DispatchExtents extents{rows, num_selected, num_experts, true, variant.max_tokens};
    ScratchCounter quantised, bf16;
    (void)lay_out_quantised(quantised, variant, extents, width, inner_width, {}, true);
    (void)lay_out_bf16(bf16, extents, width, inner_width, {});
    most = std::max({most, quantised.bytes, bf16.bytes});
  };
  count(kFewTokens, few_rows);
  count(kManyTokens, num_rows);
  return most;
}

void experts_four_tokens(const ExpertsArgs& args, CudaContext& context) {
  if (args.x.extent(0) == 0) return;
  check_arguments(args, WeightFormat::kFp8);
  const ScratchScope scope(context.scratch);
  auto* inner = context.scratch.allocate<Bf16Bits>(
      four_token_inner_values(args.x.extent(0), args.ids.extent(1), inner_pitch_of(args)));
  if (args.places.copied != nullptr) {
    BALEEN_CHECK(context.branch != nullptr);
    const bool behind_guess = context.branch->is_open();
    if (behind_guess) context.branch->join(context.stream);
    fetch_chosen_experts(args, context.stream, !behind_guess);
    if (guesses(args)) fetch_guessed_experts(args, context.branch->fork(context.stream));
  }
  four_token_experts(args, device_places(args), inner, context);
}

void experts_few_tokens(const ExpertsArgs& args, CudaContext& context) {
  experts_by(kFewTokens, args, context);
}
void experts_many_tokens(const ExpertsArgs& args, CudaContext& context) {
  experts_by(kManyTokens, args, context);
}

void experts_bf16(const ExpertsArgs& args, CudaContext& context) {
  if (args.x.extent(0) == 0) return;
  check_arguments(args, WeightFormat::kBF16);
  const DispatchExtents extents =
      extents_of(args, variant_for(args.x.extent(0), args.ids.extent(1)).max_tokens);
  const ExpertWeights& first = args.routed[0];
  const ScratchScope scope(context.scratch);
  const ExpertScratch scratch =
      lay_out_bf16(context.scratch, extents, first.w1.cols, inner_pitch_of(args), args.split());
  dispatch_experts(args, extents, scratch.plan, {}, context);
  bf16_expert_products(args, extents, scratch.plan, scratch.inner_bf16, scratch.y, context);
  combine_experts(args, extents, scratch.plan, scratch.y, context);
}

std::optional<Reason> why_not_four_tokens(const ExpertsArgs& args) {
  if (format_of(args) == WeightFormat::kBF16) return "multiplies codes; these weights are BF16";
  if (args.x.extent(0) > kMaxStreamedTokens) return "takes up to four tokens";
  if (args.places.copied != nullptr && args.x.extent(0) > 1)
    return "waits for all experts that are fetched, which takes a single token no longer";
  if (args.ids.extent(1) == 0) return "takes tokens' routed experts; there are none";
  if (!four_token_experts_fit(args.x.extent(0), args.ids.extent(1), args.x.extent(1), inner_pitch_of(args)))
    return "has room for fewer experts of a token, or for shorter rows";
  return std::nullopt;
}

std::optional<Reason> why_not_few_tokens(const ExpertsArgs& args) {
  if (format_of(args) == WeightFormat::kBF16) return "multiplies codes; these weights are BF16";
  if (!are_few(args.x.extent(0), args.ids.extent(1))) {
    return "its blocks plan at most 64 tokens and 512 token-expert assignments for themselves";
  }
  return std::nullopt;
}

std::optional<Reason> why_not_many_tokens(const ExpertsArgs& args) {
  if (format_of(args) == WeightFormat::kBF16) return "multiplies codes; these weights are BF16";
  return std::nullopt;
}

std::optional<Reason> why_not_bf16(const ExpertsArgs& args) {
  if (format_of(args) != WeightFormat::kBF16) return "takes BF16 weights; these are codes";
  return std::nullopt;
}

void experts(const ExpertsArgs& args, CudaContext& context) {
  if (!why_not_bf16(args)) return experts_bf16(args, context);
  if (!why_not_four_tokens(args)) return experts_four_tokens(args, context);
  (why_not_few_tokens(args) ? experts_many_tokens : experts_few_tokens)(args, context);
}

}  // namespace baleen::sm90
