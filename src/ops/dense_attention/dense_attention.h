/// Training of attention over the dense keys of one document: window rows and compressed entries, one vector
/// a position as key and value, one softmax with a sink. Matrix products by tiles of 32 queries; one thread a
/// document.
/// (source: forward pass 5.7, training 11.5)
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/dense_product/dense_product.h"
#include "ops/operation/operation.h"

namespace baleen {

/// Queries, with all their heads, of one matrix product.
inline constexpr std::int64_t kAttentionTileQueries = 32;

template <class T>
struct DenseAttentionValues {
  std::int64_t tokens = 0, heads = 0, width = 0, window = 0, entries = 0;
  const T* q = nullptr;                   ///< [tokens, heads, width]
  const T* kv = nullptr;                  ///< [tokens, width]
  const T* entry = nullptr;               ///< [entries, width]
  const std::uint8_t* visible = nullptr;  ///< [tokens, entries], 1 where the query sees the entry
  const T* sink = nullptr;                ///< [heads]
  /// The forward multiplies values by weights in BF16, as the engine's attention does: rounded 64 visible
  /// keys at a time, relative to the largest score so far. The backward takes them unrounded.
  bool rounds_weights = false;
  Operands operands = Operands::kAsStored;  ///< how its products round
};

/// o [tokens, heads, width]; lse [tokens, heads]: log of the softmax's denominator, sink included; where it
/// is not null entry_share [tokens, entries]: the heads' probabilities of each entry, summed.
/// About 4 tokens heads width (window + 16 + entries / 2) FLOPs.
template <class T>
void dense_attention_forward(const DenseAttentionValues<T>& v, T* o, T* lse, T* entry_share = nullptr);

/// dq, dkv, dentry, dsink +=. `o` and `lse` are the forward's. Probabilities are computed again.
template <class T>
void dense_attention_backward(const DenseAttentionValues<T>& v, const T* o, const T* lse, const T* d_o, T* dq,
                              T* dkv, T* dentry, T* dsink);

/// What the backward of one document takes beside its arguments: two matrices of a tile's scores.
template <class T>
[[nodiscard]] std::int64_t dense_attention_tile_bytes(const DenseAttentionValues<T>& v) {
  const std::int64_t keys = std::min(v.tokens, v.window + kAttentionTileQueries - 1) + v.entries;
  return 2 * static_cast<std::int64_t>(sizeof(T)) * std::min(v.tokens, kAttentionTileQueries) * v.heads *
         keys;
}

/// Products are of whole tiles: all window rows that some query of a tile sees, and the entries of `ratio`
/// tokens that are complete at its last query. What a query does not see is computed too, and masked. Where
/// queries select among the entries these are the most: a tile ends at the last one that is selected.
[[nodiscard]] OpCost dense_attention_cost(const DenseAttentionValues<float>& v, std::int64_t ratio);
[[nodiscard]] OpCost dense_attention_backward_cost(const DenseAttentionValues<float>& v, std::int64_t ratio);

}  // namespace baleen
