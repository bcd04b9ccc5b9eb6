/// What `hc_pre` and `hc_head` share: the products of a token's streams with `fn`, and the weighted sum of
/// its streams.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/hc_pre/hc_pre.h"
#include "ops/operation/row_blocks.h"

namespace baleen {

/// The rows that one work item of the matrix product takes at least.
inline constexpr int kHcBlockRowsPerThread = 24;

/// products = fn x for every row, not yet multiplied by rho. [T, rows of fn]
void hc_mix_products(ConstActivations<3> streams, const HcWeights& weights, Activations<2> products,
                     CpuContext& context);
/// The same as training computes them: by ops/dense_product.
void hc_mix_training_products(ConstActivations<3> streams, const HcWeights& weights, Activations<2> products,
                              CpuContext& context);

/// Computes the products of all tokens and calls body(products, begin, end) for ranges of rows that cover
/// them. It goes in blocks of tokens, so that streams and packed rows are still in a cache when they are read
/// again: with 512 tokens of 4 x 4096 a sixth of the time less than in one piece. `kept`: where products go;
/// empty: scratch.
template <class Body>
void hc_mix_in_blocks(ConstActivations<3> streams, const HcWeights& weights, Activations<2> kept,
                      CpuContext& context, Body&& body) {
  const std::int64_t num_rows = streams.extent(0);
  const std::int64_t num_mixes = weights.fn.extent(0);
  const std::int64_t block = std::int64_t{kHcBlockRowsPerThread} * context.pool.num_threads();
  const ScratchScope scope(context.scratch);
  Activations<2> products = kept;
  if (kept.empty()) products = {context.scratch.allocate<float>(num_rows * num_mixes), {num_rows, num_mixes}};
  for (std::int64_t first = 0; first < num_rows; first += block) {
    const std::int64_t last = std::min(num_rows, first + block);
    hc_mix_products(streams.slice(first, last), weights, products.slice(first, last), context);
    for_row_blocks(
        context.pool, last - first, streams.extent(1) * streams.extent(2),
        [&](std::int64_t begin, std::int64_t end, int) { body(products, first + begin, first + end); });
  }
}

/// The same in training: all products, then the ranges.
template <class Body>
void hc_mix_in_training(ConstActivations<3> streams, const HcWeights& weights, Activations<2> kept,
                        CpuContext& context, Body&& body) {
  const std::int64_t num_rows = streams.extent(0), num_mixes = weights.fn.extent(0);
  const ScratchScope scope(context.scratch);
  Activations<2> products = kept;
  if (kept.empty()) products = {context.scratch.allocate<float>(num_rows * num_mixes), {num_rows, num_mixes}};
  hc_mix_training_products(streams, weights, products, context);
  for_row_blocks(context.pool, num_rows, streams.extent(1) * streams.extent(2),
                 [&](std::int64_t begin, std::int64_t end, int) { body(products, begin, end); });
}

/// Scratch for the above.
[[nodiscard]] std::int64_t hc_mix_scratch_bytes(std::int64_t num_rows, std::int64_t num_mixes,
                                                std::int64_t num_inputs);

/// Of the products, rho and the weighted sum, which is written to `sum`.
[[nodiscard]] OpCost hc_mix_cost(ConstActivations<3> streams, const HcWeights& weights,
                                 ConstActivations<2> sum);

/// Of the gradients of all that, the sigmoids of pre computed again; the products are kept.
[[nodiscard]] OpCost hc_mix_backward_cost(ConstActivations<3> streams, const HcWeights& weights,
                                          ConstActivations<2> sum);

/// Reference for one token: m = (fn x) rho. `products` [mixes] are set to fn x where they are not empty. Of
/// floats and doubles.
template <class T>
[[nodiscard]] std::vector<double> hc_mixes_ref(View<const T, 2> streams, const HcWeightsOf<T>& weights,
                                               float norm_eps, std::span<T> products);

/// Reference for one token: y = bf(sum_j pre_j x_j), unrounded in `exact`. Of floats and doubles.
template <class T>
void weighted_stream_sum_ref(View<const T, 2> streams, const std::vector<double>& pre, Precision precision,
                             std::span<T> y);

}  // namespace baleen
