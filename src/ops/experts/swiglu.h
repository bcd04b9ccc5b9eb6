/// The activation between an expert's products: a = weight silu(min(g, limit)) clamp(v, ±limit); a limit of 0
/// clamps nothing. (source: forward pass 6.2)
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace baleen {

/// One value, as it is specified.
template <class T>
[[nodiscard]] T swiglu_ref(T gate, T up, T limit, T weight) {
  const T g = limit > 0 ? std::min(gate, limit) : gate;
  const T v = limit > 0 ? std::clamp(up, -limit, limit) : up;
  return weight * (g / (T{1} + std::exp(-g)) * v);
}

/// What inference and what training computes of a row. `rounds`: to BF16.
void swiglu_row(const float* gate, const float* up, std::int64_t count, float limit, float weight,
                bool rounds, float* out);
/// silu is the product with a sigmoid, of which the backward has the same bits; `swiglu_row` divides.
void swiglu_training_row(const float* gate, const float* up, std::int64_t count, float limit, float weight,
                         bool rounds, float* out);

/// Rows of a training pass: [rows, width] each; `weights` [rows] or null: ones. Runs on the calling thread.
template <class T>
void swiglu_forward(std::int64_t rows, std::int64_t width, const T* gate, const T* up, const T* weights,
                    float limit, bool rounds, T* a);

}  // namespace baleen
