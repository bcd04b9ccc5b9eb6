/// DeepSeek-V3.2 in closed form: what the report of V4 compares itself with.
/// (source: simulation 10)
#pragma once

#include <cstdint>

#include "ops/operation/operation.h"

namespace baleen {

/// Products for one token behind `num_positions - 1` others, in the formats of its release: FP8 projections,
/// experts and indexer, BF16 attention in the latent space. Scalar work and bytes are left out.
[[nodiscard]] OpCost v32_token_cost(std::int64_t num_positions);

/// Rows of the cache: 656 bytes of latent and 132 of indexer key a layer and position.
[[nodiscard]] std::int64_t v32_cache_bytes(std::int64_t num_positions);

/// Of these what one token reads: every indexer key, and the latents of the positions that it selects.
[[nodiscard]] std::int64_t v32_cache_read_bytes(std::int64_t num_positions);

/// Products at the rate of FP8: BF16 and float32 count two, FP4 with FP4 a half. The weighting of the report.
[[nodiscard]] double fp8_equivalent_flops(const OpCost& cost);

}  // namespace baleen
