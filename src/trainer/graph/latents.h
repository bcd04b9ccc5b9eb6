/// Latents of one layer over a batch of documents, forward and backward: tokens to entries, and index keys
/// made of them, which the layer and later ones read.
/// (source: releases specification 2.5, 9.C)
#pragma once

#include <vector>

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// shared.entry, and where the pass scores entries shared.key, of x [N, d]; `entry_begin` [documents + 1]:
/// where each document's begin.
template <class T>
void latents_forward(const GraphContext<T>& context, const LayerAttention& shape, const AttentionRows& w,
                     const T* x, const std::vector<std::int64_t>& entry_begin, LatentActivations<T>& a,
                     SharedActivations<T>& shared);

/// dx and the gradients accumulate, from shared.dentry, which all readers have added to and which is used up.
template <class T>
void latents_backward(const GraphContext<T>& context, const LayerAttention& shape, const AttentionRows& w,
                      const T* x, const std::vector<std::int64_t>& entry_begin, const LatentActivations<T>& a,
                      SharedActivations<T>& shared, T* dx);

/// The same of the index keys that `block` made, from the dkey of all blocks that score entries by them,
/// summed in the order of blocks. Latents are constants: nothing reaches x.
template <class T>
void index_keys_backward(const GraphContext<T>& context, std::int64_t block, const AttentionRows& w,
                         const std::vector<std::int64_t>& entry_begin, const SharedOfBlocks<T>& shared);

/// `sum` of `count` values, zeros at first: gradients of several layers add up in it.
template <class T>
T* summed(Values<T>& sum, std::int64_t count) {
  return sum.empty() ? zeros(sum, count) : sum.data();
}

}  // namespace baleen::graph
