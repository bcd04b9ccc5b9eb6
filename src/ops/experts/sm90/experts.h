/// The ways that Hopper has of computing experts.
#pragma once

#include <optional>

#include "ops/experts/cuda/experts.h"

namespace baleen::sm90 {

// FP4 and FP8 weights: the bits are the same in all of them.

void experts_four_tokens(const ExpertsArgs& args, CudaContext& context);
void experts_few_tokens(const ExpertsArgs& args, CudaContext& context);
void experts_many_tokens(const ExpertsArgs& args, CudaContext& context);
void experts_bf16(const ExpertsArgs& args, CudaContext& context);
/// Weights in front of which activations have a scale per 32: FP4, and FP8 in blocks of 32.
/// By one of the kernels below, whose bits are the same: by tiles of up to 8, of up to 64 and of up to 144
/// tokens.
void experts_groups_of_32(const ExpertsArgs& args, CudaContext& context);
void experts_tiles_of_8(const ExpertsArgs& args, CudaContext& context);
void experts_tiles_of_64(const ExpertsArgs& args, CudaContext& context);
void experts_tiles_of_144(const ExpertsArgs& args, CudaContext& context);
/// The same for up to eight tokens (groups_few.h).
void experts_few_groups(const ExpertsArgs& args, CudaContext& context);
[[nodiscard]] std::optional<Reason> why_not_four_tokens(const ExpertsArgs& args);
[[nodiscard]] std::optional<Reason> why_not_few_tokens(const ExpertsArgs& args);
[[nodiscard]] std::optional<Reason> why_not_many_tokens(const ExpertsArgs& args);
[[nodiscard]] std::optional<Reason> why_not_bf16(const ExpertsArgs& args);
[[nodiscard]] std::optional<Reason> why_not_nvfp4(const ExpertsArgs& args);

}  // namespace baleen::sm90
