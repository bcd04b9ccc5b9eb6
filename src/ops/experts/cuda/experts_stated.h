/// Experts in the stated order of sums (ops/experts/stated_sums.h); an FP8 expert that is shared keeps to the
/// order of its own that expert_dequantised.cuh has. Bits do not depend on the kind of tile.
#pragma once

#include <optional>

#include "cuda/cuda_context.h"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/cuda/expert_layout.h"
#include "ops/experts/experts.h"

namespace baleen::BALEEN_ARCH {

/// Tokens of a tile: for few rows an expert, whose weights are then what a call waits for.
inline constexpr int kFewStatedTokens = 4;

/// Dispatch, both products, combination: all experts are in the device's memory, as one list of tiles.
void stated_experts(const ExpertsArgs& args, int tile_tokens, CudaContext& context);

/// What is wrong with a call for that; nullopt: nothing.
[[nodiscard]] std::optional<Reason> why_not_in_stated_order(const ExpertsArgs& args);

/// Device memory of a call between its launches.
template <class Source>
[[nodiscard]] ExpertScratch lay_out_stated(Source& source, const DispatchExtents& extents, std::int64_t width,
                                           std::int64_t inner_width, ExpertSplit split) {
  return {.plan = lay_out_plan(source, extents, false, 0),
          .rows = lay_out_rows(source, extents.num_rows(), width),
          .inner = lay_out_rows(source, extents.num_rows(), inner_width),
          .y = lay_out_outputs(source, extents, width, split)};
}

}  // namespace baleen::BALEEN_ARCH
