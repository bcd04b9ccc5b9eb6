/// A mixing of the residual streams with the norm of what it reads, forward and backward: the entry of
/// attention, of the experts and of the head.
/// (source: training 11.2; where mixing lags releases specification 2.6, 9.C)
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

/// What a site reads.
template <class T>
struct SiteInputs {
  const T* x = nullptr;    ///< [N, n, d]
  const T* pre = nullptr;  ///< [N, n] where mixing lags: what x is summed up by

  SiteInputs(const T* streams, const Values<T>& incoming)
      : x(streams), pre(incoming.empty() ? nullptr : incoming.data()) {}
  explicit SiteInputs(const StreamValues<T>& streams) : SiteInputs(streams.x.data(), streams.pre) {}
};

/// Gradients of that, which accumulate.
template <class T>
struct SiteInputGradients {
  T* x = nullptr;
  T* pre = nullptr;
};

/// Gradients of what it makes. The head makes `normed` alone.
template <class T>
struct SiteGradients {
  const T* normed = nullptr;  ///< [N, d]
  const T* post = nullptr;    ///< [N, n]
  const T* comb = nullptr;    ///< [N, n, n]
  const T* pre = nullptr;     ///< [N, n] where mixing lags
};

/// `a.normed` [N, d], and of a half-block `a.post`, `a.comb` and where mixing lags `a.pre`.
template <class T>
void site_forward(const GraphContext<T>& context, SiteKind kind, const SiteRows& w, const SiteInputs<T>& in,
                  SiteActivations<T>& a);

/// `din` and the gradients of weights accumulate.
template <class T>
void site_backward(const GraphContext<T>& context, SiteKind kind, const SiteRows& w, const SiteInputs<T>& in,
                   SiteActivations<T>& a, const SiteGradients<T>& d, const SiteInputGradients<T>& din);

}  // namespace baleen::graph
