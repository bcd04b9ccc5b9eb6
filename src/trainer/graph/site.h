/// A mixing of the residual streams with the norm of what it reads, forward and backward: the entry of
/// attention, of the experts and of the head.
/// (source: training 11.2)
#pragma once

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// A mixing and the norm of what it reads: before attention, before the experts, and before the head.
struct SiteRows {
  MixingRows mixing;
  TensorRow norm;
};

enum class SiteKind : std::uint8_t { kHalfBlock, kHead };

/// `a.normed` [N, d], and of a half-block `a.post` and `a.comb`, of the streams x [N, n, d].
template <class T>
void site_forward(const GraphContext<T>& context, SiteKind kind, const SiteRows& w, const T* x,
                  SiteActivations<T>& a);

/// dx [N, n, d] and the gradients accumulate. `dpost` and `dcomb` are null for the head.
template <class T>
void site_backward(const GraphContext<T>& context, SiteKind kind, const SiteRows& w, const T* x,
                   SiteActivations<T>& a, const T* dnormed, const T* dpost, const T* dcomb, T* dx);

}  // namespace baleen::graph
