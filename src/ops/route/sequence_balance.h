/// Training of the sequence-wise balance loss of one document and router: L = Σ_e f_e P_e, with scores
/// s = sqrt(softplus(z)), P_e the mean over tokens of s_e / Σ_j s_j, and f_e the load that the k largest
/// scores without bias would give the expert, 1 where all are even; f is a constant of the backward.
/// (source: training 6.3, 11.8)
#pragma once

#include <cstdint>

#include "ops/operation/operation.h"

namespace baleen {

template <class T>
struct SequenceBalanceValues {
  std::int64_t tokens = 0, experts = 0, k = 0;
  const T* z = nullptr;  ///< logits [tokens, experts]
};

/// On the calling thread; 4 tokens experts FLOPs about, and a choice a token.
template <class T>
[[nodiscard]] double sequence_balance_forward(const SequenceBalanceValues<T>& v);

/// dz [tokens, experts] += factor dL/dz
template <class T>
void sequence_balance_backward(const SequenceBalanceValues<T>& v, T factor, T* dz);

[[nodiscard]] OpCost sequence_balance_cost(const SequenceBalanceValues<float>& v);
[[nodiscard]] OpCost sequence_balance_backward_cost(const SequenceBalanceValues<float>& v);

}  // namespace baleen
