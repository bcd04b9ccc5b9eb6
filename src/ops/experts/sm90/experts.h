/// Hopper (sm_90a) kernels of experts. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/experts/experts.h"

namespace baleen::sm90 {

/// Weights of all experts are laid out evenly: expert e's w1 starts e times the distance between those of
/// experts 0 and 1 behind expert 0's, and so w2, w3 and the scales. An id of -1 is of a padding row, which
/// has no expert.
void experts(const ExpertsArgs& args, CudaContext& context);

// The ways there are; `experts` takes the one that is predicted to take the least time. FP4 and FP8 weights:
// the bits are the same in all of them.

void experts_four_tokens(const ExpertsArgs& args, CudaContext& context);
void experts_few_tokens(const ExpertsArgs& args, CudaContext& context);
void experts_many_tokens(const ExpertsArgs& args, CudaContext& context);
void experts_bf16(const ExpertsArgs& args, CudaContext& context);
/// Routed experts in NVFP4.
void experts_nvfp4(const ExpertsArgs& args, CudaContext& context);
[[nodiscard]] std::optional<Reason> why_not_four_tokens(const ExpertsArgs& args);
[[nodiscard]] std::optional<Reason> why_not_few_tokens(const ExpertsArgs& args);
[[nodiscard]] std::optional<Reason> why_not_many_tokens(const ExpertsArgs& args);
[[nodiscard]] std::optional<Reason> why_not_bf16(const ExpertsArgs& args);
[[nodiscard]] std::optional<Reason> why_not_nvfp4(const ExpertsArgs& args);

/// Enough for any number of rows up to `num_rows` and any format of weights, whole experts; of parts of them
/// `split_experts_scratch_bytes` more.
[[nodiscard]] std::int64_t experts_scratch_bytes(std::int64_t num_rows, std::int64_t num_selected,
                                                 std::int64_t width, std::int64_t inner_width,
                                                 std::int64_t num_experts);

[[nodiscard]] std::span<const CudaVariant<ops::Experts>> experts_variants();

}  // namespace baleen::sm90
