/// Products of experts in the stated order where activations have a scale per 32 inputs.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/cuda/expert_layout.h"
#include "ops/experts/experts.h"

namespace baleen::BALEEN_ARCH {

inline constexpr int kGroupStatedTokens = 8;  ///< a tile's

/// y of every assignment, at its row. `scratch`: rows of x as FP8, room for the inner ones and the plan,
/// whose tiles of kGroupStatedTokens are all in the resident list (`lay_out_dequantised`).
void multiply_stated_groups(const ExpertsArgs& args, const DispatchExtents& extents,
                            const ExpertScratch& scratch, CudaContext& context);

}  // namespace baleen::BALEEN_ARCH
