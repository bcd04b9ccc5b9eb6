// Experts: dispatch, products, combination (expert_dispatch.h, expert_products.h), and what they share.
//
// Where chosen experts may lie in the host's memory, the products are two launches: of the experts in the
// device's memory while the others come, then of those. (A single token's wait until they have come.) What
// the next layer's tokens will probably choose comes beside the rest of this layer and attention.
//
//     stream   dispatch ── products, resident ──┬── products, copied ── combination ── ...
//     branch   fetch chosen experts ────────────┴── fetch the next layer's, as guessed ── fetch chosen ...
#include <algorithm>

#include "base/check.h"
#include "cuda/stream_branch.h"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/cuda/expert_fetch.h"
#include "ops/experts/cuda/experts_bf16.h"
#include "ops/experts/cuda/experts_dequantised.h"
#include "ops/experts/cuda/experts_stated.h"
#include "ops/experts/cuda/stated_groups.h"
#include "ops/experts/sm90/expert_four_tokens.h"
#include "ops/experts/sm90/expert_layout.h"
#include "ops/experts/sm90/expert_products.h"
#include "ops/experts/sm90/experts.h"
#include "ops/experts/sm90/groups_few.h"
#include "ops/experts/sm90/groups_wide.h"
#include "ops/operation/run_quickest.h"

namespace baleen::sm90 {
namespace {

constexpr std::int64_t kMaxFewTokens = 64;
constexpr std::int64_t kMaxFewAssignments = 512;

bool are_few(std::int64_t num_tokens, std::int64_t num_selected) {
  return num_tokens <= kMaxFewTokens && num_tokens * num_selected <= kMaxFewAssignments;
}

/// Whether the next layer's experts are fetched by a guess. They come on the branch, behind those of this
/// layer; the next call takes them in.
bool guesses(const ExpertsArgs& args) { return !args.hints.next.ids.empty(); }

WeightFormat format_of(const ExpertsArgs& args) { return args.routed[0].w1.format; }

/// Of a variant that multiplies codes of FP8, or of FP4 times powers of two.
std::optional<Reason> why_not_codes(const ExpertsArgs& args) {
  if (const auto why = why_not_stated(args)) return why;
  if (const auto why = why_not_small_groups(args)) return why;
  if (format_of(args) == WeightFormat::kBF16) return "multiplies codes; these weights are BF16";
  if (format_of(args) == WeightFormat::kNvfp4)
    return "multiplies FP8 codes; NVFP4 weights, with their scales, have more bits";
  return std::nullopt;
}

/// For BF16 weights.
template <class Source>
ExpertScratch lay_out_bf16(Source& source, const DispatchExtents& extents, std::int64_t width,
                           std::int64_t inner_width, ExpertSplit split) {
  return {.plan = lay_out_plan(source, extents, false, 0),
          .inner_bf16 = source.template allocate<Bf16Bits>(extents.num_rows() * inner_width),
          .y = lay_out_outputs(source, extents, width, split)};
}

void experts_by(const ProductVariant& variant, const ExpertsArgs& args, CudaContext& context) {
  if (args.x.extent(0) == 0) return;
  check_expert_arguments(args, WeightFormat::kFp8);
  const DispatchExtents extents = extents_of(args, variant.max_tokens);
  const ExpertWeights& first = args.routed[0];
  const ScratchScope scope(context.scratch);
  const bool copies = args.places.copied != nullptr;
  const ExpertScratch scratch = lay_out_quantised(context.scratch, variant, extents, first.w1.cols,
                                                  inner_pitch_of(args), args.split, copies);
  if (variant.max_planned_tiles > 0) BALEEN_CHECK(extents.max_tiles() <= variant.max_planned_tiles);
  const auto multiply = [&](bool copied, const ProductLaunch& how) {
    variant.launch(describe_products(args, variant, extents, scratch, copied), first.w1.format,
                   args.split.any(), how, context);
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
                                   std::int64_t inner_width, std::int64_t num_experts, int activation_group) {
  const std::int64_t few_rows =
      std::min({num_rows, kMaxFewTokens, std::max<std::int64_t>(1, kMaxFewAssignments / num_selected)});
  // What a variant needs grows with the rows.
  const std::int64_t streamed_rows = std::min(num_rows, kMaxStreamedTokens);
  std::int64_t most =
      Arena::bytes_for<Bf16Bits>(four_token_inner_values(streamed_rows, num_selected, inner_width));
  const std::int64_t group_rows = std::min(num_rows, kMaxFewGroupTokens);
  most = std::max(most,
                  Arena::bytes_for<Bf16Bits>(few_group_inner_values(group_rows, num_selected, inner_width)));
  const auto count = [&](const ProductVariant& variant, std::int64_t rows) {
    const DispatchExtents extents{rows, num_selected, num_experts, rows, variant.max_tokens};
    ScratchCounter quantised, bf16;
    (void)lay_out_quantised(quantised, variant, extents, width, inner_width, {}, true);
    (void)lay_out_bf16(bf16, extents, width, inner_width, {});
    most = std::max({most, quantised.bytes, bf16.bytes});
  };
  const auto count_dequantised = [&](std::int64_t rows, int tile_tokens) {
    ScratchCounter counter;
    (void)lay_out_dequantised(counter, {rows, num_selected, num_experts, rows, tile_tokens}, width,
                              inner_width, {}, activation_group);
    most = std::max(most, counter.bytes);
  };
  most = std::max(most, stated_scratch_bytes(num_rows, num_selected, width, inner_width, num_experts));
  count(kFewTokens, few_rows);
  count(kManyTokens, num_rows);
  for (const int tile_tokens : {kFewDequantisedTokens, kManyDequantisedTokens})
    count_dequantised(num_rows, tile_tokens);
  if (activation_group == kSmallActivationGroup) {
    count_dequantised(num_rows, kGroupStatedTokens);
    for (const WideShape shape : {WideShape::kSmall, WideShape::kLarge}) {
      ScratchCounter wide;
      (void)lay_out_wide(wide, {num_rows, num_selected, num_experts, num_rows, wide_tile_tokens(shape)},
                         width, inner_width, {});
      most = std::max(most, wide.bytes);
    }
  }
  return most;
}

void experts_four_tokens(const ExpertsArgs& args, CudaContext& context) {
  if (args.x.extent(0) == 0) return;
  check_expert_arguments(args, WeightFormat::kFp8);
  const ScratchScope scope(context.scratch);
  auto* inner = context.scratch.allocate<Bf16Bits>(
      four_token_inner_values(args.x.extent(0), args.ids.extent(1), inner_pitch_of(args)));
  fetch_before_products(args, context);
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
  check_expert_arguments(args, WeightFormat::kBF16);
  const bool few = are_few(args.x.extent(0), args.ids.extent(1));
  const DispatchExtents extents = extents_of(args, (few ? kFewTokens : kManyTokens).max_tokens);
  const ExpertWeights& first = args.routed[0];
  const ScratchScope scope(context.scratch);
  const ExpertScratch scratch =
      lay_out_bf16(context.scratch, extents, first.w1.cols, inner_pitch_of(args), args.split);
  dispatch_experts(args, extents, scratch.plan, {}, context);
  bf16_expert_products(args, extents, scratch.plan, scratch.inner_bf16, scratch.y, context);
  combine_experts(args, extents, scratch.plan, scratch.y, context);
}

void experts_tiles_of_8(const ExpertsArgs& args, CudaContext& context) {
  experts_dequantised(WeightFormat::kFp8x32, kFewDequantisedTokens, dequantised_expert_products, args,
                      context);
}

namespace {

template <WideShape kShape>
void experts_wide(const ExpertsArgs& args, CudaContext& context) {
  if (args.x.extent(0) == 0) return;
  check_expert_arguments(args, WeightFormat::kFp8x32);
  const DispatchExtents extents = extents_of(args, wide_tile_tokens(kShape));
  const ScratchScope scope(context.scratch);
  const WideScratch scratch =
      lay_out_wide(context.scratch, extents, args.x.extent(1), inner_pitch_of(args), args.split);
  fetch_before_products(args, context);
  const ExpertsArgs fetched = all_on_device(args);
  dispatch_wide_rows(fetched, extents, scratch.plan, scratch.rows, context);
  wide_expert_products(fetched, extents, kShape, scratch, context);
  combine_experts(fetched, extents, scratch.plan, scratch.y, context);
}

}  // namespace

void experts_tiles_of_64(const ExpertsArgs& args, CudaContext& context) {
  experts_wide<WideShape::kSmall>(args, context);
}
void experts_tiles_of_144(const ExpertsArgs& args, CudaContext& context) {
  experts_wide<WideShape::kLarge>(args, context);
}

void experts_groups_of_32(const ExpertsArgs& args, CudaContext& context) {
  // Of most experts that have more tokens than the mean all fit in one tile.
  constexpr double kMaxMeanOfSmall = 48;
  const double mean = mean_assignments(args);
  if (mean <= kFewDequantisedTokens) return experts_tiles_of_8(args, context);
  (mean <= kMaxMeanOfSmall ? experts_tiles_of_64 : experts_tiles_of_144)(args, context);
}

void experts_few_groups(const ExpertsArgs& args, CudaContext& context) {
  if (args.x.extent(0) == 0) return;
  check_expert_arguments(args, WeightFormat::kFp8x32);
  const ScratchScope scope(context.scratch);
  auto* inner = context.scratch.allocate<Bf16Bits>(
      few_group_inner_values(args.x.extent(0), args.ids.extent(1), inner_pitch_of(args)));
  fetch_before_products(args, context);
  few_group_experts(args, inner, context);
}

std::optional<Reason> why_not_four_tokens(const ExpertsArgs& args) {
  if (const auto why = why_not_codes(args)) return why;
  if (args.x.extent(0) > kMaxStreamedTokens) return "takes up to four tokens";
  if (args.places.copied != nullptr && args.x.extent(0) > 1)
    return "waits for all experts that are fetched, which takes a single token no longer";
  if (args.ids.extent(1) == 0) return "takes tokens' routed experts; there are none";
  if (!four_token_experts_fit(args.x.extent(0), args.ids.extent(1), args.x.extent(1), inner_pitch_of(args)))
    return "has room for fewer experts of a token, or for shorter rows";
  return std::nullopt;
}

std::optional<Reason> why_not_few_tokens(const ExpertsArgs& args) {
  if (const auto why = why_not_codes(args)) return why;
  if (!are_few(args.x.extent(0), args.ids.extent(1))) {
    return "its blocks plan at most 64 tokens and 512 token-expert assignments for themselves";
  }
  return std::nullopt;
}

std::optional<Reason> why_not_many_tokens(const ExpertsArgs& args) { return why_not_codes(args); }

std::optional<Reason> why_not_bf16(const ExpertsArgs& args) {
  if (const auto why = why_not_stated(args)) return why;
  if (format_of(args) != WeightFormat::kBF16) return "takes BF16 weights; these are codes";
  return std::nullopt;
}

std::optional<Reason> why_not_nvfp4(const ExpertsArgs& args) {
  if (const auto why = why_not_stated(args)) return why;
  if (const auto why = why_not_small_groups(args)) return why;
  if (format_of(args) != WeightFormat::kNvfp4) return "takes NVFP4 weights; these are others";
  return std::nullopt;
}

void experts(const ExpertsArgs& args, CudaContext& context) {
  run_quickest(experts_variants(), context, args);
}

}  // namespace baleen::sm90
