/// The memory of n-grams that a block reads before its attention, forward and backward: rows of its table,
/// keys and a value made of them, and what they add to the residual streams.
/// (source: releases specification 2.7, 9.C)
#pragma once

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

using EngramRows = EngramWeightsOf<RowLeaves>;

/// a.streams of the streams x [N, n, d]; `table`: which of the model's.
template <class T>
void engram_forward(const GraphContext<T>& context, std::size_t table, const EngramRows& w, const T* x,
                    EngramActivations<T>& a);

/// dx and the gradients accumulate, from dout of a.streams. Rows of the table that no token reads have none.
template <class T>
void engram_backward(const GraphContext<T>& context, std::size_t table, const EngramRows& w, const T* x,
                     const EngramActivations<T>& a, const T* dout, T* dx);

}  // namespace baleen::graph
