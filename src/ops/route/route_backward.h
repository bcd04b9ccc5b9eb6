/// Training of the router after its product: p = sqrt(softplus(z)), w_i = λ p_i / Σ_selected p. The bias
/// chooses and has no gradient. (source: forward pass 6.1, training 11.8)
#pragma once

#include <cmath>
#include <cstdint>

namespace baleen {

/// sqrt(softplus(z)); softplus is linear from 20 on.
template <class T>
T route_score(T z) {
  return std::sqrt(z > T{20} ? z : std::log1p(std::exp(z)));
}

/// dscore / dz
template <class T>
T route_score_slope(T z) {
  if (z < T{-20}) return route_score(z) / 2;
  const T sigma = z > T{20} ? T{1} : T{1} / (T{1} + std::exp(-z));
  return sigma / (2 * route_score(z));
}

/// Of the k selected experts of one row: logits z [experts], ids and weights [k].
template <class T>
void route_weights(const T* z, const std::int32_t* ids, int k, double scale, T* weights) {
  T sum = 0;
  for (int i = 0; i < k; ++i) sum += weights[i] = route_score(z[ids[i]]);
  for (int i = 0; i < k; ++i) weights[i] *= static_cast<T>(scale) / sum;
}

/// dz [experts] +=
template <class T>
void route_backward(const T* z, const std::int32_t* ids, int k, double scale, const T* dweights, T* dz) {
  T sum = 0;
  T dot = 0;
  for (int i = 0; i < k; ++i) {
    sum += route_score(z[ids[i]]);
    dot += route_score(z[ids[i]]) * dweights[i];
  }
  for (int i = 0; i < k; ++i) {
    dz[ids[i]] += static_cast<T>(scale) / sum * (dweights[i] - dot / sum) * route_score_slope(z[ids[i]]);
  }
}

}  // namespace baleen
