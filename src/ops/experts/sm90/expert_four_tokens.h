/// Experts for one to four tokens: two launches, no plan. The same bits as the other way (expert_products.h).
///
/// Every multiprocessor streams an equal share of the active experts' rows. There is no ring that warps hand
/// each other:
/// a thread copies the weights that it will itself put into registers (expert_row_product.cuh), and begins as
/// soon as it knows the ids. A column of the instruction is a token in the first kernel, an assignment in the
/// second. A block of the second kernel starts where one of the first has ended, and fills its rings with
/// rows of w2 while it waits for the others. It takes all assignments of its columns of `out`, two experts a
/// warpgroup at a time, and adds them itself.
#pragma once

#include <cstdint>

#include "cuda/cuda_context.h"
#include "ops/experts/experts.h"

namespace baleen::sm90 {

inline constexpr std::int64_t kMaxStreamedTokens = 4;

/// Whether there is such a kernel for these numbers of tokens, slots of each, inputs and inner values, the
/// larger number of routed and shared experts.
[[nodiscard]] bool four_token_experts_fit(std::int64_t num_tokens, std::int64_t num_selected,
                                          std::int64_t width, std::int64_t inner_width);

/// BF16 values of `inner`.
[[nodiscard]] std::int64_t four_token_inner_values(std::int64_t num_tokens, std::int64_t num_selected,
                                                   std::int64_t inner_width);

/// FP4 or FP8 weights; expert e is at `places[e]`, null: at e. `inner`: what one kernel leaves to the other.
void four_token_experts(const ExpertsArgs& args, const std::int32_t* places, Bf16Bits* inner,
                        CudaContext& context);

}  // namespace baleen::sm90
