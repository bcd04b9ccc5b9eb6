/// The backward of `route_weights`. The bias chooses and has no gradient. (source: training 11.8)
#pragma once

#include "ops/route/route_weights.h"

namespace baleen {

/// dscore / dz
template <class T>
T route_score_slope(T z) {
  if (z < T{-20}) return route_score(z) / 2;
  const T sigma = z > T{20} ? T{1} : T{1} / (T{1} + std::exp(-z));
  return sigma / (2 * route_score(z));
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
