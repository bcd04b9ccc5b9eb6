/// The ways of computing experts before Hopper. FP4 and FP8 weights: the bits are the same in both.
#pragma once

#include "ops/experts/cuda/experts.h"

namespace baleen::sm80 {

void experts_few_tokens(const ExpertsArgs& args, CudaContext& context);
void experts_many_tokens(const ExpertsArgs& args, CudaContext& context);
void experts_bf16(const ExpertsArgs& args, CudaContext& context);
/// Weights in front of which activations have a scale per 32: FP4, and FP8 in blocks of 32.
void experts_groups_of_32(const ExpertsArgs& args, CudaContext& context);

}  // namespace baleen::sm80
