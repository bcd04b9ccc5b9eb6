#include "ops/experts/sm90/groups_wide.h"

#include "base/check.h"
#include "cuda/tensor_map.h"
#include "ops/experts/cuda/expert_weights.h"

namespace baleen::sm90 {
namespace {

// Boxes of copies (groups_wide.cuh).
constexpr int kWeightBoxRows = 64, kTokenBoxBytes = 128;

using Which = WeightMatrix ExpertWeights::*;

/// What both launches of some experts have in common.
struct WideExperts {
  std::span<const ExpertWeights> experts;
  std::int64_t num_places;
  WideProducts base;
};

void set_weights(WideProducts& to, int i, const WideExperts& of, Which which) {
  const WeightMatrix& first = of.experts[0].*which;
  const bool fp4 = first.format == WeightFormat::kFp4;
  BALEEN_CHECK_EQ(reinterpret_cast<std::uintptr_t>(first.scales()) % 4, 0);
  to.weights[i] = make_tensor_map(first.data, of.num_places, expert_distance(of.experts, which), first.rows,
                                  first.row_bytes(), first.row_bytes(), kWeightBoxRows, fp4 ? 64 : 128,
                                  fp4 ? TileSwizzle::kNone : TileSwizzle::k128B);
  to.scales[i] = reinterpret_cast<const std::uint8_t*>(first.scales());
  to.scale_distance[i] = expert_scale_distance(of.experts, which);
  to.num_rows = static_cast<std::int32_t>(first.rows);
  to.num_slices = static_cast<std::int32_t>(first.cols / kActivationGroup);
}

CUtensorMap map_of(const Bf16Bits* rows, std::int64_t num_rows, std::int64_t width, int box_rows) {
  const auto row_bytes = width * static_cast<std::int64_t>(sizeof(Bf16Bits));
  return make_tensor_map(rows, num_rows, row_bytes, row_bytes, box_rows, kTokenBoxBytes, TileSwizzle::k128B);
}

}  // namespace

void wide_expert_products(const ExpertsArgs& args, const DispatchExtents& extents, WideShape shape,
                          const WideScratch& scratch, CudaContext& context) {
  BALEEN_CHECK_EQ(extents.tile_tokens, wide_tile_tokens(shape));
  const std::int64_t width = args.x.extent(1), inner_pitch = inner_pitch_of(args);
  const int box_tokens = wide_box_tokens(shape);
  const CUtensorMap x = map_of(scratch.rows, extents.num_rows(), width, box_tokens);
  const CUtensorMap inner = map_of(scratch.inner, extents.num_rows(), inner_pitch, box_tokens);
  const TileList& list = scratch.plan.lists.resident;
  const auto shared_tiles =
      static_cast<std::int32_t>((extents.num_shared + extents.tile_tokens - 1) / extents.tile_tokens);
  const WideProducts base{.tiles = list.tiles,
                          .num_tiles = list.count,
                          .row_weight = scratch.plan.row_weight,
                          .inner = scratch.inner,
                          .inner_pitch = static_cast<std::int32_t>(inner_pitch),
                          .swiglu_limit = args.swiglu_limit};
  WideExperts routed{.experts = args.routed,
                     .num_places = args.places.of_expert == nullptr ? extents.num_experts : args.places.count,
                     .base = base};
  routed.base.places = args.places.of_expert;
  routed.base.first_tile = shared_tiles;
  routed.base.end_tile = static_cast<std::int32_t>(extents.max_tiles());
  routed.base.y = scratch.y.routed;
  WideExperts shared{
      .experts = {args.shared, args.shared != nullptr ? 1U : 0U}, .num_places = 1, .base = base};
  shared.base.are_shared = true;
  shared.base.end_tile = shared_tiles;
  shared.base.y = scratch.y.shared;
  const auto multiply = [&](const WideExperts& of, bool down) {
    if (of.experts.empty()) return;
    using E = ExpertWeights;
    WideProducts products = of.base;
    products.tokens = down ? inner : x;
    set_weights(products, 0, of, down ? &E::w2 : &E::w1);
    set_weights(products, 1, of, down ? &E::w2 : &E::w3);
    BALEEN_CHECK_EQ((of.experts[0].w1.activation_group), kSmallActivationGroup);
    (down ? multiply_wide_down : multiply_wide_inner)(products, of.experts[0].w1.format, shape, context);
  };
  for (const bool down : {false, true}) {
    multiply(shared, down);
    multiply(routed, down);
  }
}

}  // namespace baleen::sm90
