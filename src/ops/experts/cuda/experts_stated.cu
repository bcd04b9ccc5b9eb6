// Calls of experts in the stated order.
#include "ops/experts/cuda/experts_stated.h"

#include "base/check.h"
#include "ops/experts/cuda/expert_fetch.h"
#include "ops/experts/cuda/experts_dequantised.h"
#include "ops/experts/cuda/stated_groups.h"
#include "ops/experts/cuda/stated_launch.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

/// Waits for experts from outside the device's memory; with them all are one list of tiles.
ExpertsArgs fetched(const ExpertsArgs& args, CudaContext& context) {
  fetch_before_products(args, context);
  return all_on_device(args);
}

void check_arguments(const ExpertsArgs& args) {
  check_expert_arguments(args, WeightFormat::kFp8);
  BALEEN_CHECK(args.routed[0].w1.format == WeightFormat::kFp4);
}

/// Row 0 of the shared expert's is row `first_row` of all.
Fp8Rows as_rows_of_all(Fp8Rows rows, std::int64_t first_row, std::int64_t pitch) {
  rows.codes -= first_row * pitch;
  rows.scales -= first_row;
  return rows;
}

}  // namespace

std::optional<Reason> why_not_in_stated_order(const ExpertsArgs& args) {
  if (args.sums != ExpertSums::kStated) return "adds up in the stated order, which takes longer; any will do";
  return why_not_small_groups(args);
}

std::optional<Reason> why_not_stated_groups(const ExpertsArgs& args) {
  if (args.sums != ExpertSums::kStated) return "adds up in the stated order, which takes longer; any will do";
  if (args.routed[0].w1.activation_group != kSmallActivationGroup)
    return "rounds activations with a scale per 32 values; these weights want others";
  return std::nullopt;
}

void experts_stated_groups(const ExpertsArgs& call, CudaContext& context) {
  if (call.x.extent(0) == 0) return;
  const ExpertsArgs args = fetched(call, context);
  check_expert_arguments(args, WeightFormat::kFp8x32);
  BALEEN_CHECK(args.routed[0].w1.format == WeightFormat::kFp4);
  const DispatchExtents extents = extents_of(args, kGroupStatedTokens);
  const ScratchScope scope(context.scratch);
  const ExpertScratch scratch = lay_out_dequantised(context.scratch, extents, args.x.extent(1),
                                                    inner_pitch_of(args), args.split, kSmallActivationGroup);
  dispatch_experts(args, extents, scratch.plan, scratch.rows, context);
  multiply_stated_groups(args, extents, scratch, context);
  combine_experts(args, extents, scratch.plan, scratch.y, context);
}

void experts_stated_few(const ExpertsArgs& call, CudaContext& context) {
  if (call.x.extent(0) == 0) return;
  const ExpertsArgs args = fetched(call, context);
  check_arguments(args);
  const DispatchExtents extents = extents_of(args, kFewStatedTokens);
  const ScratchScope scope(context.scratch);
  if (multiplies_one(args, context.num_sms)) {
    const ExpertScratch scratch =
        lay_out_one_stated(context.scratch, extents, args.x.extent(1), inner_pitch_of(args), args.split);
    multiply_one_stated(args, extents, scratch, context);
    return;
  }
  const ExpertScratch scratch =
      lay_out_few_stated(context.scratch, extents, args.x.extent(1), inner_pitch_of(args), args.split);
  if (!plans_in_blocks(extents)) dispatch_experts(args, extents, scratch.plan, scratch.rows, context);
  multiply_few_stated(args, extents, scratch, context);
  combine_experts(args, extents, scratch.plan, scratch.y, context);
}

void experts_stated_many(const ExpertsArgs& call, CudaContext& context) {
  if (call.x.extent(0) == 0) return;
  const ExpertsArgs args = fetched(call, context);
  check_arguments(args);
  const DispatchExtents extents = extents_of(args, kManyStatedTokens);
  const std::int64_t width = args.x.extent(1), inner_pitch = inner_pitch_of(args);
  const ScratchScope scope(context.scratch);
  const ManyStatedScratch scratch =
      lay_out_many_stated(context.scratch, extents, width, inner_pitch, args.split);
  const DispatchPlan& plan = scratch.common.plan;
  dispatch_experts(args, extents, plan, {}, context);
  ManyStatedParams params{
      .products = dequantised::params_of(args, extents, scratch.common, plan.lists.resident),
      .tokens = scratch.tokens,
      .inner = scratch.inner,
      .token_of_row = scratch.token_of_row};
  params.products.x = as_rows_of_all(scratch.common.rows, extents.first_shared_row(), width);
  params.products.inner = as_rows_of_all(scratch.common.inner, extents.first_shared_row(), inner_pitch);
  prepare_stated_tokens(args, plan, scratch.common.rows, params, context);
  multiply_many_stated(params, extents, context);
  combine_experts(args, extents, plan, scratch.common.y, context);
}

}  // namespace baleen::BALEEN_ARCH
