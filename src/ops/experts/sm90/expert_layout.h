/// What a call of experts keeps in device memory between its launches, and how it is laid out: by an arena,
/// or by a counter of bytes.
#pragma once

#include <cstdint>

#include "ops/experts/cuda/expert_layout.h"
#include "ops/experts/sm90/expert_products.h"

namespace baleen::sm90 {

/// Counters of a list of tiles.
[[nodiscard]] inline std::int64_t list_counters(const ProductVariant& variant, const DispatchExtents& extents,
                                                std::int64_t inner_width) {
  return extents.max_tiles() * (1 + (variant.whole_scale_groups ? 0 : inner_width / kActivationGroup));
}

/// For FP4 and FP8 weights.
template <class Source>
[[nodiscard]] ExpertScratch lay_out_quantised(Source& source, const ProductVariant& variant,
                                              const DispatchExtents& extents, std::int64_t width,
                                              std::int64_t inner_width, ExpertSplit split, bool copies) {
  const bool whole_scale_groups = variant.whole_scale_groups;
  return {.plan = lay_out_plan(source, extents, copies,
                               (copies ? 2 : 1) * list_counters(variant, extents, inner_width)),
          .rows = lay_out_rows(source, extents.num_rows(), width),
          .inner = lay_out_rows(source, extents.num_rows(), inner_width),
          .inner_bf16 =
              source.template allocate<Bf16Bits>(whole_scale_groups ? 0 : extents.num_rows() * inner_width),
          .y = lay_out_outputs(source, extents, width, split)};
}

/// The products of the resident experts, or of the copied ones.
[[nodiscard]] ExpertProducts describe_products(const ExpertsArgs& args, const ProductVariant& variant,
                                               const DispatchExtents& extents, const ExpertScratch& scratch,
                                               bool copied);

}  // namespace baleen::sm90
