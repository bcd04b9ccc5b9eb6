/// The weights of one row's experts as training computes them: p = sqrt(softplus(z)), w_i = λ p_i / Σ_chosen
/// p. Route of inference has the logarithms of vectors, sums experts in the order of their scores, and
/// divides before it scales: other bits. (source: forward pass 6.1)
#pragma once

#include <cmath>
#include <cstdint>

namespace baleen {

/// sqrt(softplus(z)); softplus is linear from 20 on.
template <class T>
T route_score(T z) {
  return std::sqrt(z > T{20} ? z : std::log1p(std::exp(z)));
}

/// Of the k selected experts of one row: logits z [experts], ids and weights [k].
template <class T>
void route_weights(const T* z, const std::int32_t* ids, int k, double scale, T* weights) {
  T sum = 0;
  for (int i = 0; i < k; ++i) sum += weights[i] = route_score(z[ids[i]]);
  for (int i = 0; i < k; ++i) weights[i] *= static_cast<T>(scale) / sum;
}

}  // namespace baleen
