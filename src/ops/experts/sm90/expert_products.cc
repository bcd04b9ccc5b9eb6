// The products of a call as the kernel takes them: tensor maps and arrays (expert_layout.h).
#include "base/check.h"
#include "cuda/tensor_map.h"
#include "ops/experts/cuda/expert_weights.h"
#include "ops/experts/sm90/expert_layout.h"

namespace baleen::sm90 {
namespace {

constexpr int kStageRowBytes = 128;  // of a weight row, in one box

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
    return make_tensor_map(rows.codes, num_rows, width, width, box_tokens, kActivationGroup,
                           TileSwizzle::k128B);
  };
  return {.codes = codes(variant.box_tokens),
          .small_codes = codes(variant.small_box_tokens),
          .scales =
              make_tensor_map(rows.scales, width / kActivationGroup, rows.scale_stride * kScaleBytes,
                              rows.scale_stride * kScaleBytes, 1,
                              variant.scale_box_tokens * static_cast<int>(kScaleBytes), TileSwizzle::kNone)};
}

}  // namespace

ExpertProducts describe_products(const ExpertsArgs& args, const ProductVariant& variant,
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
          .scale_groups_ready = counters,
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

}  // namespace baleen::sm90
