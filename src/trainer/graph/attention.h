/// The attention of one block over a batch of whole documents, forward and backward.
#pragma once

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// out [N, d] (overwritten) of x [N, d]. `shared`: what earlier blocks have made, and this one makes.
template <class T>
void attention_forward(const GraphContext<T>& context, std::int64_t block, const AttentionRows& w, const T* x,
                       SharedOfBlocks<T>& shared, AttentionActivations<T>& a, T* out);

/// dx and the gradients accumulate: the indexer's those of its own loss, of which nothing
/// reaches dx. Gradients of what earlier blocks made add up in `shared`; those of what this one made have
/// then come from all later blocks.
template <class T>
void attention_backward(const GraphContext<T>& context, std::int64_t block, const AttentionRows& w,
                        const T* x, SharedOfBlocks<T>& shared, const AttentionActivations<T>& a,
                        const T* dout, T* dx);

}  // namespace baleen::graph
