/// One block over the residual streams: attention, then experts, each entered and left through a mixing.
#pragma once

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// out [N, n, d] (overwritten) of the streams x [N, n, d].
template <class T>
void block_forward(const GraphContext<T>& context, std::int64_t block, const BlockRows& w, const T* x,
                   BlockActivations<T>& a, T* out);

/// dx [N, n, d] and the gradients accumulate.
template <class T>
void block_backward(const GraphContext<T>& context, std::int64_t block, const BlockRows& w, const T* x,
                    BlockActivations<T>& a, const T* dout, T* dx);

}  // namespace baleen::graph
