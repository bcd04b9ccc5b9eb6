/// The indexer of one block in training: scores of entries, the entries that each query attends to, and the
/// loss that the indexer alone learns from, with its gradient. What it reads of the trunk, and the attention
/// that it is compared with, are constants.
/// (source: forward pass 5.5 and 5.6, training 7, 11.6, 11.7)
#pragma once

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// a.visible of the attention input x [N, d] and a.q_latent_normed: all complete entries, or where the pass
/// is sparse those that the indexer scores best, among candidates where the block has some. Scores are
/// computed where they choose or are trained. Where an earlier block selects, its selection.
template <class T>
void select_entries(const GraphContext<T>& context, std::int64_t block, const AttentionRows& w, const T* x,
                    SharedOfBlocks<T>& shared, AttentionActivations<T>& a);

/// Whether the pass has the loss of this layer's indexer.
template <class T>
[[nodiscard]] bool has_indexer_loss(const GraphContext<T>& context, const LayerAttention& shape) {
  return shape.selects() && context.indexer_scale != 0;
}

/// a.indexer_loss: the sum over the batch's queries, from a.visible and a.entry_share.
template <class T>
void indexer_loss(const GraphContext<T>& context, const LayerAttention& shape, AttentionActivations<T>& a);

/// The indexer's gradients accumulate: of its loss times `context.indexer_scale`. Those of index keys that
/// are made of latents stay in `shared`, for the block that made them.
template <class T>
void indexer_backward(const GraphContext<T>& context, std::int64_t block, const AttentionRows& w, const T* x,
                      SharedOfBlocks<T>& shared, const AttentionActivations<T>& a);

}  // namespace baleen::graph
