#include "ops/fused_experts/sm90/fused_experts.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "comm/peer/peer_memory.h"
#include "ops/collectives/cuda/collectives.h"
#include "ops/experts/sm90/expert_layout.h"
#include "ops/experts/sm90/experts.h"
#include "ops/fused_experts/sm90/fused_time.h"
#include "ops/operation/run_quickest.h"

namespace baleen::sm90 {
namespace {

/// Sizes of a call, on every rank the same but for the shared expert's tokens.
struct FusedExtents {
  const ProductVariant& variant;
  DispatchExtents rows;  ///< assignments of all ranks, each at a place of its own
  std::int64_t places;   ///< places that a rank has
};

/// `num_slots`: experts of this rank.
FusedExtents extents_of(const ProductVariant& variant, std::int64_t all_places, std::int64_t places,
                        std::int64_t num_slots, std::int64_t own_tokens) {
  return {.variant = variant,
          .rows = {.num_tokens = all_places,
                   .num_selected = 1,
                   .num_experts = num_slots,
                   .num_shared = own_tokens,
                   .tile_tokens = variant.max_tokens},
          .places = places};
}

/// Device memory of a call.
struct FusedScratch {
  ExpertScratch experts;
  std::uint32_t* outputs = nullptr;
  unsigned long long* output_arrays = nullptr;
  Bf16Bits* shared_outputs = nullptr;
  Bf16Bits* own_outputs = nullptr;
};

template <class Source>
FusedScratch lay_out(Source& source, const FusedExtents& extents, std::int64_t width,
                     std::int64_t inner_width) {
  const DispatchExtents& rows = extents.rows;
  const std::int64_t num_rows = (rows.num_rows() + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  FusedScratch scratch;
  scratch.experts = {.plan = {.lists = {.resident = lay_out_tiles(source, rows)},
                              .row_weight = source.template allocate<float>(num_rows)},
                     .rows = lay_out_rows(source, num_rows, width),
                     .inner = lay_out_rows(source, num_rows, inner_width),
                     .inner_bf16 = source.template allocate<Bf16Bits>(
                         extents.variant.whole_scale_groups ? 0 : num_rows * inner_width)};
  scratch.outputs = source.template allocate<std::uint32_t>(num_rows);
  scratch.output_arrays = source.template allocate<unsigned long long>(ExchangedRows::kMaxArrays);
  // In one piece: a row that was lost may have any place below `places` in either.
  scratch.shared_outputs = source.template allocate<Bf16Bits>((rows.num_shared + extents.places) * width);
  scratch.own_outputs = scratch.shared_outputs + rows.num_shared * width;
  return scratch;
}

/// Of PeerView::counters: that of the plan, then rows of tiles, then those of the products.
std::int64_t num_counters(const FusedExtents& extents, std::int64_t inner_width) {
  return 1 + extents.rows.max_tiles() + list_counters(extents.variant, extents.rows, inner_width);
}

std::int64_t most_places(const DispatchArgs& dispatch, const CudaContext& context) {
  return (context.most_rows + dispatch.row_parts - 1) / dispatch.row_parts * dispatch.ids.extent(1);
}

bool can_fuse(const DispatchArgs& dispatch, const CudaContext& context, const PeerView& view) {
  const std::int64_t places = most_places(dispatch, context);
  const std::int64_t most_tokens =
      std::min<std::int64_t>(kMaxFusedTokens, kFusedBlocksPerSm * context.num_sms);
  return places <= most_tokens * dispatch.ids.extent(1) && view.size * places <= kMaxFusedPlaces &&
         can_stage(view, places, dispatch.ids.extent(1), dispatch.x.extent(1));
}

void run_at_once(const ProductVariant& variant, const DispatchArgs& dispatch, const ExpertsArgs& routed,
                 const ExpertsArgs& shared, const CombineArgs& combine, const PeerView& view,
                 CudaContext& context) {
  const std::int64_t num_tokens = dispatch.x.extent(0), num_selected = dispatch.ids.extent(1);
  const std::int64_t width = dispatch.x.extent(1), inner_width = routed.routed[0].w1.rows;
  const std::int64_t num_places = most_places(dispatch, context);
  const FusedExtents extents = extents_of(variant, view.size * num_places, num_places,
                                          static_cast<std::int64_t>(routed.routed.size()), num_tokens);
  BALEEN_CHECK(dispatch.x.dense() && dispatch.ids.dense() && dispatch.weights.dense());
  BALEEN_CHECK_LE(num_tokens * num_selected, extents.places);
  ExpertsArgs both = routed;
  both.shared = shared.shared;
  check_expert_arguments(both, WeightFormat::kFp8);
  const auto counters = static_cast<std::int32_t>(num_counters(extents, inner_width));
  BALEEN_CHECK_LE(counters, kMaxPeerCounters);

  const ScratchScope scope(context.scratch);
  FusedScratch scratch = lay_out(context.scratch, extents, width, inner_width);
  std::int32_t* const plan_ready = view.counters;
  std::int32_t* const rows_ready = plan_ready + 1;
  scratch.experts.plan.counters = rows_ready + extents.rows.max_tiles();
  const ExpertHolders holders = holders_of(dispatch.placement);
  const auto places = static_cast<std::int32_t>(extents.places);
  launch_fused_dispatch({.sent = {.peers = view,
                                  .holders = holders,
                                  .x = dispatch.x.bf16().data(),
                                  .x_fp8 = dispatch.x_fp8,
                                  .ids = dispatch.ids.data(),
                                  .weights = dispatch.weights.data(),
                                  .num_tokens = static_cast<std::int32_t>(num_tokens),
                                  .num_selected = static_cast<std::int32_t>(num_selected),
                                  .places = places,
                                  .width = width},
                         .input = PlanInput(both, extents.rows),
                         .tiles = scratch.experts.plan.lists.resident,
                         .rows = scratch.experts.rows,
                         .row_weight = scratch.experts.plan.row_weight,
                         .outputs = scratch.outputs,
                         .output_arrays = scratch.output_arrays,
                         .own_outputs = scratch.own_outputs,
                         .shared_outputs = scratch.shared_outputs,
                         .plan_ready = plan_ready,
                         .rows_ready = rows_ready},
                        context);
  ExpertProducts products = describe_products(both, extents.variant, extents.rows, scratch.experts, false);
  products.exchanged = {.plan_ready = plan_ready,
                        .rows_ready = rows_ready,
                        .outputs = scratch.outputs,
                        .arrays = scratch.output_arrays,
                        .num_arrays = static_cast<std::uint32_t>(view.size + 1),
                        .array_rows = static_cast<std::uint32_t>(places),
                        .failed = view.failed};
  extents.variant.launch(products, both.routed[0].w1.format, false,
                         {.num_blocks = context.num_sms, .early = true}, context);
  launch_staged_sum({.peers = view,
                     .holders = holders,
                     .y = scratch.own_outputs,
                     .ids = dispatch.ids.data(),
                     .shared = scratch.shared_outputs,
                     .out = combine.out.bf16().data(),
                     .num_tokens = static_cast<std::int32_t>(num_tokens),
                     .num_selected = static_cast<std::int32_t>(num_selected),
                     .places = places,
                     .width = width,
                     .num_counters = counters},
                    context);
}

/// Of all ranks, for which a shape has scratch: with small tiles more than with large ones, and it is slower
/// long before.
template <const ProductVariant& kVariant>
std::int64_t places_of(std::int64_t num_experts) {
  constexpr std::int64_t kMaxOfExpert = 6;
  return kVariant.whole_scale_groups ? kMaxFusedPlaces : kMaxOfExpert * num_experts;
}

template <const ProductVariant& kVariant>
std::optional<Reason> why_not(const DispatchArgs& dispatch, const ExpertsArgs& routed,
                              const ExpertsArgs& shared, const CombineArgs& /*combine*/,
                              const DeviceTraits& /*traits*/) {
  if (dispatch.way != DispatchWay::kAssignments)
    return "sends each assignment by itself; these rows are gathered";
  if (dispatch.placement.moe_tp() > 1) return "takes whole experts; these are split over ranks";
  if (!dispatch.sends_fp8 || routed.routed[0].w1.format == WeightFormat::kBF16)
    return "takes FP4 and FP8 experts; these are BF16";
  if (routed.routed[0].w1.format == WeightFormat::kNvfp4) return "takes FP4 and FP8 experts; these are NVFP4";
  if (const auto why = why_not_small_groups(routed)) return why;
  if (routed.places.of_expert != nullptr)
    return "takes experts in the device's memory; some are in the host's";
  if (shared.shared == nullptr || shared.shared->w1.rows != routed.routed[0].w1.rows)
    return "computes a whole shared expert beside the routed ones";
  if (dispatch.x.extent(1) % kActivationGroup != 0) return "moves rows in groups of 128 values";
  const std::int64_t num_selected = dispatch.ids.extent(1), ranks = dispatch.placement.stage->size();
  if (num_selected > kMaxSelected) return "has room for at most 16 experts of a token";
  if (std::ssize(routed.routed) > kMaxFusedExperts) return "plans for at most 512 experts of a rank";
  const std::int64_t places = routed.x.extent(0) / ranks;
  if (ranks * places > places_of<kVariant>(dispatch.placement.num_experts))
    return "has scratch for six assignments for each expert";
  if (places > kMaxFusedTokens * num_selected || ranks * places > kMaxFusedPlaces)
    return "stages the rows of at most 256 tokens a rank, and 16,384 assignments of all ranks";
  const std::int64_t inner_width = routed.routed[0].w1.rows;
  const FusedExtents extents =
      extents_of(kVariant, ranks * places, places, std::ssize(routed.routed), dispatch.x.extent(0));
  if (num_counters(extents, inner_width) > kMaxPeerCounters) return "has counters for fewer tiles";
  return std::nullopt;
}

/// Enough for whatever share of the tokens of all ranks is this one's.
template <const ProductVariant& kVariant>
std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  const std::int64_t num_experts = shape.n_routed_experts;
  if (shape.num_experts_per_tok == 0 || num_experts == 0) return 0;
  const std::int64_t most_places = std::min(
      {shape.max_rows * shape.num_experts_per_tok, kMaxFusedPlaces, places_of<kVariant>(num_experts)});
  const std::int64_t own = std::min(shape.max_rows, kMaxFusedTokens);
  ScratchCounter counter;
  const FusedExtents extents =
      extents_of(kVariant, most_places, own * shape.num_experts_per_tok, num_experts, own);
  static_cast<void>(lay_out(counter, extents, shape.hidden_size, shape.moe_intermediate_size));
  return counter.bytes;
}

/// At once where this step can, else one operation after the other.
template <const ProductVariant& kVariant>
void run_fused(const DispatchArgs& dispatch, const ExpertsArgs& routed, const ExpertsArgs& shared,
               const CombineArgs& combine, CudaContext& context) {
  const PeerRank& peers = peers_of(context, FusedExperts::kName);
  const PeerView view = peers.view(*dispatch.placement.stage);
  if (!view.shares_gpu && can_fuse(dispatch, context, view))
    return run_at_once(kVariant, dispatch, routed, shared, combine, view, context);
  sm90::dispatch(dispatch, context);
  experts(routed, context);
  experts(shared, context);
  sm90::combine(combine, context);
}

}  // namespace

void fused_experts(const DispatchArgs& dispatch, const ExpertsArgs& routed, const ExpertsArgs& shared,
                   const CombineArgs& combine, CudaContext& context) {
  run_quickest(fused_experts_variants(), context, dispatch, routed, shared, combine);
}

void fused_experts_at_once(const DispatchArgs& dispatch, const ExpertsArgs& routed, const ExpertsArgs& shared,
                           const CombineArgs& combine, CudaContext& context) {
  const PeerView view = peers_of(context, FusedExperts::kName).view(*dispatch.placement.stage);
  BALEEN_CHECK(can_fuse(dispatch, context, view));
  const DeviceTraits traits{.num_units = context.num_sms, .rates = context.rates};
  const bool few = !why_not<kFewExchanged>(dispatch, routed, shared, combine, traits) &&
                   fused_few_seconds(dispatch, routed, shared, combine, traits) <=
                       fused_many_seconds(dispatch, routed, shared, combine, traits);
  run_at_once(few ? kFewExchanged : kManyExchanged, dispatch, routed, shared, combine, view, context);
}

std::span<const CudaVariant<ops::Dispatch, ops::Experts, ops::Experts, ops::Combine>>
fused_experts_variants() {
  static constexpr std::array<CudaVariant<ops::Dispatch, ops::Experts, ops::Experts, ops::Combine>, 2>
      kVariants{{{.name = "sm90/fused_few_tokens",
                  .run = run_fused<kFewExchanged>,
                  .why_not = why_not<kFewExchanged>,
                  .predict = fused_few_seconds,
                  .scratch_bytes = scratch_bytes<kFewExchanged>},
                 {.name = "sm90/fused_many_tokens",
                  .run = run_fused<kManyExchanged>,
                  .why_not = why_not<kManyExchanged>,
                  .predict = fused_many_seconds,
                  .scratch_bytes = scratch_bytes<kManyExchanged>}}};
  return kVariants;
}

}  // namespace baleen::sm90
