/// What `hc_pre` and `hc_head` share: the products of a token's streams with `fn`, and the weighted sum of
/// its streams.
#pragma once

#include <vector>

#include "ops/hc_pre/hc_pre.h"

namespace baleen {

/// fn x for every row, not yet multiplied by rho: [T, rows of fn]. The result lives in `context.scratch`.
[[nodiscard]] Activations<2> hc_mix_products(ConstActivations<3> streams, const HcWeights& weights,
                                             CpuContext& context);
/// Scratch that it takes, the result included.
[[nodiscard]] std::int64_t hc_mix_scratch_bytes(std::int64_t num_rows, std::int64_t num_mixes,
                                                std::int64_t num_inputs);
/// Of the products, rho and the weighted sum.
[[nodiscard]] OpCost hc_mix_cost(ConstActivations<3> streams, const HcWeights& weights);

/// Reference for one token: m = (fn x) rho.
[[nodiscard]] std::vector<double> hc_mixes_ref(ConstActivations<2> streams, const HcWeights& weights,
                                               float norm_eps);

/// Reference for one token: y = bf(sum_j pre_j x_j), unrounded in `exact`.
void weighted_stream_sum_ref(ConstActivations<2> streams, const std::vector<double>& pre, Precision precision,
                             std::span<float> y);

}  // namespace baleen
