/// The mixture of experts of one block, forward and backward: router or hash table, routed experts over the
/// tokens that chose them, shared expert. Sums over a token's experts go in ascending order of experts, sums
/// over an expert's tokens in the order of tokens.
/// (source: forward pass 6, training 6.3, 11.8)
#pragma once

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// out [N, d] (overwritten) of x [N, d]; `a.balance_loss` where the pass has it.
template <class T>
void experts_forward(const GraphContext<T>& context, std::int64_t block, const MoeRows& w, const T* x,
                     ExpertActivations<T>& a, T* out);

/// dx and the gradients accumulate. The router's bias has none.
template <class T>
void experts_backward(const GraphContext<T>& context, const MoeRows& w, const T* x,
                      const ExpertActivations<T>& a, const T* dout, T* dx);

}  // namespace baleen::graph
