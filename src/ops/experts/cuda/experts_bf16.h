/// Experts with BF16 weights: no released model has them, so this is plain rather than fast.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/experts.h"

namespace baleen::BALEEN_ARCH {

/// y of every assignment, at its row. Experts are read where they are, also in the host's memory. `inner`:
/// [num_rows, the larger inner width].
void bf16_expert_products(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                          Bf16Bits* inner, const AssignmentOutputs& y, CudaContext& context);

}  // namespace baleen::BALEEN_ARCH
