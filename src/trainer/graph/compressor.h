/// A compressor over a batch of documents, forward and backward: tokens to entries, normed and rotated.
/// (source: forward pass 5.4, training 11.4)
#pragma once

#include <vector>

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// What entries are: keys and values of attention, or keys of an indexer.
enum class EntryKind : std::uint8_t { kLatent, kIndexKey };

/// a.entry of x [N, d]; `entry_begin` [documents + 1]: where each document's entries begin.
template <class T>
void compressor_forward(const GraphContext<T>& context, const LayerAttention& shape, EntryKind kind,
                        const CompressorRows& w, const T* x, const std::vector<std::int64_t>& entry_begin,
                        CompressorActivations<T>& a);

/// The gradients and, where it is not null, dx accumulate. `dentry` is used up.
template <class T>
void compressor_backward(const GraphContext<T>& context, const LayerAttention& shape, EntryKind kind,
                         const CompressorRows& w, const T* x, const std::vector<std::int64_t>& entry_begin,
                         const CompressorActivations<T>& a, Values<T>& dentry, T* dx);

}  // namespace baleen::graph
