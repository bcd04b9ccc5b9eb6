/// Experts whose activations have a scale per 32, for many tokens.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/experts/cuda/expert_layout.h"
#include "ops/experts/experts.h"

namespace baleen::sm80 {

inline constexpr int kManyGroupTokens = 64;

/// `dequantised_expert_products` in tiles of kManyGroupTokens.
void many_group_expert_products(const ExpertsArgs& args, const DispatchExtents& extents,
                                const ExpertScratch& scratch, CudaContext& context);

}  // namespace baleen::sm80
