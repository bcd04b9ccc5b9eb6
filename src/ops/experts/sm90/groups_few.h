/// Experts of models whose activations have a scale per 32, for one to eight tokens: two launches, no plan in
/// memory. The same bits as in tiles (ops/experts/cuda/experts_dequantised.h).
///
/// Every multiprocessor has an equal share of the bytes of w1 and w3, then of the outputs; every warp streams
/// rows for itself (groups_few_rows.cuh). The second kernel's blocks lie beside the first one's where shared
/// memory has room for both, and have rows of w2 on their way while the first one still computes.
#pragma once

#include <optional>

#include "cuda/cuda_context.h"
#include "ops/experts/experts.h"

namespace baleen::sm90 {

inline constexpr std::int64_t kMaxFewGroupTokens = 8;
inline constexpr std::int64_t kMaxFewGroupSlots = 64;  ///< token-expert assignments of a call

/// What is wrong with a call on a GPU of `num_sms`; nullopt: nothing.
[[nodiscard]] std::optional<Reason> why_not_few_groups(const ExpertsArgs& args, int num_sms);

/// BF16 values of `inner`.
[[nodiscard]] std::int64_t few_group_inner_values(std::int64_t num_tokens, std::int64_t num_selected,
                                                  std::int64_t inner_width);

/// Routed experts in FP4, behind `fetch_before_products`. `inner`: what one kernel leaves to the other.
void few_group_experts(const ExpertsArgs& args, Bf16Bits* inner, CudaContext& context);

}  // namespace baleen::sm90
