/// Experts in NVFP4 and an FP8 one that is shared, and those of models whose activations have a scale per 32
/// (FP4, FP8 in blocks of 32): weights are dequantised to BF16, which is exact, beside the products.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/cuda/expert_layout.h"
#include "ops/experts/experts.h"

namespace baleen::BALEEN_ARCH {

/// Tokens of a tile: for a few an expert, whose weights are then what a call waits for, and for many.
inline constexpr int kFewDequantisedTokens = 8;
inline constexpr int kManyDequantisedTokens = 32;  ///< NVFP4 alone has such tiles

/// Tokens that an expert of the rank has in a call, in the mean.
[[nodiscard]] inline double mean_assignments(const ExpertsArgs& args) {
  const double assignments = args.hints.expected ? args.hints.expected->assignments
                                                 : static_cast<double>(args.x.extent(0) * args.ids.extent(1));
  return assignments / static_cast<double>(args.routed.size());
}

/// y of every assignment, at its row. `scratch`: rows of x as FP8, room for the inner ones and the plan,
/// whose tiles of at most `extents.tile_tokens` tokens, one of these, are all in the resident list.
///
/// Arithmetic of an output, the same for every tile: for each slice of 128 inputs the tensor core's float32
/// sum D of products of BF16 values; acc = fma(D, s, acc) over ascending slices, where s is the activations'
/// scale (FP8: times the weights'); at the end times the matrix's scale. Scales per 32 are in the BF16
/// values, and s is a power of two that neither had room for.
void dequantised_expert_products(const ExpertsArgs& args, const DispatchExtents& extents,
                                 const ExpertScratch& scratch, CudaContext& context);

using DequantisedProducts = void(const ExpertsArgs&, const DispatchExtents&, const ExpertScratch&,
                                 CudaContext&);

/// A call in tiles of up to `tile_tokens`: experts from outside the device's memory, dispatch, `multiply`,
/// combination. `shared`: the format that a shared expert has.
void experts_dequantised(WeightFormat shared, int tile_tokens, DequantisedProducts& multiply,
                         const ExpertsArgs& args, CudaContext& context);
/// Routed experts in NVFP4.
void experts_nvfp4(const ExpertsArgs& args, CudaContext& context);

/// Device memory of a call between its launches.
template <class Source>
[[nodiscard]] ExpertScratch lay_out_dequantised(Source& source, const DispatchExtents& extents,
                                                std::int64_t width, std::int64_t inner_width,
                                                ExpertSplit split, int group = kActivationGroup) {
  return {.plan = lay_out_plan(source, extents, false, 0),
          .rows = lay_out_rows(source, extents.num_rows(), width, group),
          .inner = lay_out_rows(source, extents.num_rows(), inner_width, group),
          .y = lay_out_outputs(source, extents, width, split)};
}

}  // namespace baleen::BALEEN_ARCH
