/// An ordinary residual stream in the place of mixed streams, for comparisons: a half-block reads the norm of
/// the stream and adds its result to it. The model has `hc_mult` 1 and no mixings.
#pragma once

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"
#include "trainer/graph/site.h"

namespace baleen::graph {

/// `a.normed` [N, d] of the stream x [N, d].
template <class T>
void plain_site_forward(const GraphContext<T>& context, const SiteRows& w, const T* x, SiteActivations<T>& a);

/// dx [N, d] and the gradient of the norm accumulate.
template <class T>
void plain_site_backward(const GraphContext<T>& context, const SiteRows& w, const T* x, const T* dnormed,
                         T* dx);

/// out [N, d] = x + f
template <class T>
void plain_leave(const GraphContext<T>& context, const T* x, const T* f, T* out);

/// dx and df [N, d] +=
template <class T>
void plain_leave_backward(const GraphContext<T>& context, const T* dout, T* dx, T* df);

}  // namespace baleen::graph
