// Experts in five launches: dispatch, w1 and w3 with the activation, its quantisation, w2, combination.
// Chosen experts from outside the device's memory come before.

#include <algorithm>

#include "base/check.h"
#include "ops/experts/cuda/expert_fetch.h"
#include "ops/experts/cuda/expert_layout.h"
#include "ops/experts/cuda/expert_weights.h"
#include "ops/experts/cuda/experts_bf16.h"
#include "ops/experts/cuda/experts_dequantised.h"
#include "ops/experts/cuda/experts_stated.h"
#include "ops/experts/sm80/expert_products.h"
#include "ops/experts/sm80/experts.h"
#include "ops/experts/sm80/groups_many.h"
#include "ops/linear/cuda/quantise_rows.h"
#include "ops/operation/run_quickest.h"

namespace baleen::sm80 {
namespace {

/// `quantised`: weights are codes.
template <class Source>
ExpertScratch lay_out(Source& source, const DispatchExtents& extents, std::int64_t width,
                      std::int64_t inner_width, ExpertSplit split, bool quantised) {
  return {.plan = lay_out_plan(source, extents, false, 0),
          .rows = quantised ? lay_out_rows(source, extents.num_rows(), width) : Fp8Rows{},
          .inner = quantised ? lay_out_rows(source, extents.num_rows(), inner_width) : Fp8Rows{},
          .inner_bf16 = source.template allocate<Bf16Bits>(extents.num_rows() * inner_width),
          .y = lay_out_outputs(source, extents, width, split)};
}

ExpertMatrix matrix_of(std::span<const ExpertWeights> experts, WeightMatrix ExpertWeights::*which) {
  const WeightMatrix& first = experts[0].*which;
  const std::int64_t scale_bytes = first.format == WeightFormat::kFp8 ? sizeof(float) : 1;
  return {.data = first.data,
          .distance = expert_distance(experts, which),
          .scales = first.scales(),
          .scale_distance = expert_scale_distance(experts, which) * scale_bytes};
}

ExpertMatrices matrices_of(std::span<const ExpertWeights> experts) {
  return {.gate = matrix_of(experts, &ExpertWeights::w1),
          .up = matrix_of(experts, &ExpertWeights::w3),
          .down = matrix_of(experts, &ExpertWeights::w2),
          .inner_width = static_cast<std::int32_t>(experts[0].w1.rows)};
}

void experts_by(TileKind kind, const ExpertsArgs& args, CudaContext& context) {
  if (args.x.extent(0) == 0) return;
  check_expert_arguments(args, WeightFormat::kFp8);
  const DispatchExtents extents = extents_of(args, kind == TileKind::kFew ? kFewTileTokens : kManyTileTokens);
  const std::int64_t width = args.x.extent(1), inner_pitch = inner_pitch_of(args);
  const ScratchScope scope(context.scratch);
  const ExpertScratch scratch = lay_out(context.scratch, extents, width, inner_pitch, args.split, true);
  fetch_before_products(args, context);
  const ExpertsArgs fetched = all_on_device(args);
  dispatch_experts(fetched, extents, scratch.plan, scratch.rows, context);
  const ExpertMatrices routed = matrices_of(args.routed);
  const ExpertProducts products{.routed = routed,
                                .shared = args.shared != nullptr ? matrices_of({args.shared, 1}) : routed,
                                .places = fetched.places.of_expert,
                                .list = scratch.plan.lists.resident,
                                .max_tiles = extents.max_tiles(),
                                .row_weight = scratch.plan.row_weight,
                                .x = scratch.rows,
                                .inner = scratch.inner_bf16,
                                .inner_fp8 = scratch.inner,
                                .y = scratch.y,
                                .width = static_cast<std::int32_t>(width),
                                .inner_pitch = static_cast<std::int32_t>(inner_pitch),
                                .num_experts = static_cast<std::int32_t>(extents.num_experts),
                                .swiglu_limit = args.swiglu_limit};
  const WeightFormat format = args.routed[0].w1.format;
  multiply_inner(products, format, kind, context);
  quantise_rows(View<const Bf16Bits, 2>(scratch.inner_bf16, {extents.num_rows(), inner_pitch}), scratch.inner,
                context);
  multiply_down(products, format, kind, context);
  combine_experts(args, extents, scratch.plan, scratch.y, context);
}

}  // namespace

std::int64_t experts_scratch_bytes(std::int64_t num_rows, std::int64_t num_selected, std::int64_t width,
                                   std::int64_t inner_width, std::int64_t num_experts, int activation_group) {
  std::int64_t most = stated_scratch_bytes(num_rows, num_selected, width, inner_width, num_experts);
  for (const int tile_tokens :
       {kFewTileTokens, kManyTileTokens, kFewDequantisedTokens, kManyDequantisedTokens, kManyGroupTokens}) {
    const DispatchExtents extents{num_rows, num_selected, num_experts, num_rows, tile_tokens};
    ScratchCounter counter, dequantised;
    (void)lay_out(counter, extents, width, inner_width, {}, true);
    (void)lay_out_dequantised(dequantised, extents, width, inner_width, {}, activation_group);
    most = std::max({most, counter.bytes, dequantised.bytes});
  }
  return most;
}

void experts_few_tokens(const ExpertsArgs& args, CudaContext& context) {
  experts_by(TileKind::kFew, args, context);
}
void experts_many_tokens(const ExpertsArgs& args, CudaContext& context) {
  experts_by(TileKind::kMany, args, context);
}

void experts_bf16(const ExpertsArgs& args, CudaContext& context) {
  if (args.x.extent(0) == 0) return;
  check_expert_arguments(args, WeightFormat::kBF16);
  const DispatchExtents extents = extents_of(args, kManyTileTokens);
  const ScratchScope scope(context.scratch);
  const ExpertScratch scratch =
      lay_out(context.scratch, extents, args.x.extent(1), inner_pitch_of(args), args.split, false);
  dispatch_experts(args, extents, scratch.plan, {}, context);
  bf16_expert_products(args, extents, scratch.plan, scratch.inner_bf16, scratch.y, context);
  combine_experts(args, extents, scratch.plan, scratch.y, context);
}

void experts_groups_of_32(const ExpertsArgs& args, CudaContext& context) {
  constexpr WeightFormat kShared = WeightFormat::kFp8x32;
  if (mean_assignments(args) <= kFewDequantisedTokens) {
    experts_dequantised(kShared, kFewDequantisedTokens, dequantised_expert_products, args, context);
  } else {
    experts_dequantised(kShared, kManyGroupTokens, many_group_expert_products, args, context);
  }
}

void experts(const ExpertsArgs& args, CudaContext& context) {
  run_quickest(experts_variants(), context, args);
}

}  // namespace baleen::sm80
