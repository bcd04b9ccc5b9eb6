/// One block over the residual streams: attention, then experts, each entered and left through a mixing.
#pragma once

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// `out` (overwritten) of the streams `in`. `shared`: what earlier blocks have made, and this one makes.
template <class T>
void block_forward(const GraphContext<T>& context, std::int64_t block, const BlockRows& w,
                   const StreamValues<T>& in, SharedOfBlocks<T>& shared, BlockActivations<T>& a,
                   StreamValues<T>& out);

/// `din` and the gradients accumulate, from `dout`; `din` has the sizes of `in`.
template <class T>
void block_backward(const GraphContext<T>& context, std::int64_t block, const BlockRows& w,
                    const StreamValues<T>& in, SharedOfBlocks<T>& shared, BlockActivations<T>& a,
                    const StreamValues<T>& dout, StreamValues<T>& din);

/// Makes `values` hold the sizes of a pass's streams: zeros.
template <class T>
void zero_streams(const GraphContext<T>& context, StreamValues<T>& values);

}  // namespace baleen::graph
