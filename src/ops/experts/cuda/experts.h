/// Kernels of experts. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/experts/experts.h"

namespace baleen::BALEEN_ARCH {

/// Weights of all experts are laid out evenly: expert e's w1 starts e times the distance between those of
/// experts 0 and 1 behind expert 0's, and so w2, w3 and the scales. An id of -1 is of a padding row, which
/// has no expert. By the variant that is predicted to take the least time.
void experts(const ExpertsArgs& args, CudaContext& context);

/// Enough for any number of rows up to `num_rows` and any format of weights with that group of activations,
/// whole experts; of parts of them
/// `split_experts_scratch_bytes` more.
[[nodiscard]] std::int64_t experts_scratch_bytes(std::int64_t num_rows, std::int64_t num_selected,
                                                 std::int64_t width, std::int64_t inner_width,
                                                 std::int64_t num_experts,
                                                 int activation_group = kActivationGroup);

[[nodiscard]] std::span<const CudaVariant<ops::Experts>> experts_variants();

}  // namespace baleen::BALEEN_ARCH
