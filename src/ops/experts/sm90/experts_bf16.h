/// Experts with BF16 weights: no released model has them, so this is plain rather than fast.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/experts/experts.h"
#include "ops/experts/sm90/expert_dispatch.h"

namespace baleen::sm90 {

/// y of every assignment, at its row. Experts are read where they are, also in the host's memory. `inner`:
/// [num_rows, the larger inner width].
void bf16_expert_products(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                          Bf16Bits* inner, const AssignmentOutputs& y, CudaContext& context);

}  // namespace baleen::sm90
