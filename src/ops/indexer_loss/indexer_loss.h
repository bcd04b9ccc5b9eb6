/// The loss that an indexer learns from, over one document: of each query KL(p ‖ softmax(c I)) over the
/// entries that it attends to, where p is its heads' attention to them, summed over the heads and
/// normalised. A query that attends to no entry has none. (source: training 7, 11.7)
#pragma once

#include <cstdint>

#include "ops/operation/operation.h"

namespace baleen {

/// All [tokens, entries]. The shares are constants of the backward.
template <class T>
struct IndexerLossValues {
  std::int64_t tokens = 0, entries = 0;
  const std::uint8_t* visible = nullptr;  ///< 1 where the query attends to the entry
  const T* share = nullptr;  ///< sum over heads of attention probabilities (dense_attention_forward)
  const T* score = nullptr;  ///< I (index_scores.h)
  T scale = 1;               ///< c
};

/// Σ over queries. 10 tokens entries FLOPs about.
template <class T>
[[nodiscard]] double indexer_loss_forward(const IndexerLossValues<T>& v);

/// dscore [tokens, entries] = factor c (softmax(c I) - p) where the query attends, 0 elsewhere.
template <class T>
void indexer_loss_backward(const IndexerLossValues<T>& v, T factor, T* dscore);

/// As if every query attended to all entries.
[[nodiscard]] OpCost indexer_loss_cost(const IndexerLossValues<float>& v);
[[nodiscard]] OpCost indexer_loss_backward_cost(const IndexerLossValues<float>& v);

}  // namespace baleen
