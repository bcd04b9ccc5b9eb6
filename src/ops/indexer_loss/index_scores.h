/// Training of an indexer's scores over the entries of one document: Σ_a ω_a relu(<q_a, k_s>).
/// Matrix products by tiles of 64 queries with all their heads; one thread a document.
/// (source: forward pass 5.5, training 11.7)
#pragma once

#include <cstdint>

#include "ops/dense_product/dense_product.h"
#include "ops/operation/operation.h"

namespace baleen {

template <class T>
struct IndexScoreValues {
  std::int64_t tokens = 0, heads = 0, width = 0, entries = 0;
  std::int64_t ratio = 1;     ///< the query at position t sees the first (t + 1) / ratio entries at most
  const T* q = nullptr;       ///< [tokens, heads, width]
  const T* k = nullptr;       ///< [entries, width]
  const T* weight = nullptr;  ///< ω [tokens, heads]
  Operands operands = Operands::kAsStored;  ///< how its products round

  /// Entries that are complete at position t.
  [[nodiscard]] std::int64_t complete(std::int64_t t) const { return (t + 1) / ratio; }
};

/// score [tokens, entries], set where the entry is complete; the rest of a row is left as it was. About
/// tokens heads width entries FLOPs.
template <class T>
void index_scores_forward(const IndexScoreValues<T>& v, T* score);

/// dq, dk, dweight += from dscore [tokens, entries], of which complete entries are read. Products of queries
/// and keys are computed again: three times the forward.
template <class T>
void index_scores_backward(const IndexScoreValues<T>& v, const T* dscore, T* dq, T* dk, T* dweight);

/// Products are of whole tiles: the entries that the last query of a tile sees.
[[nodiscard]] OpCost index_scores_cost(const IndexScoreValues<float>& v);
[[nodiscard]] OpCost index_scores_backward_cost(const IndexScoreValues<float>& v);

}  // namespace baleen
