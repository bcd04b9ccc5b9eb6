/// Products of a small matrix with rows, for training: several rows at once, so that each is read once. Of
/// floats: SIMD of the instruction set in use; sums do not depend on where the rows lie. Of doubles: the
/// plain loops that specify them.
#pragma once

#include <cstdint>

namespace baleen::row_math {

/// products [num_a, num_b]: <a_i, b_j> of rows of `count` values.
void dot_all(int num_a, const float* const* a, int num_b, const float* const* b, std::int64_t count,
             float* products);

/// out_o (+)= Σ_i weights[o * num_in + i] in_i, rows of `count` values. No `out` is an `in`.
void combine(int num_out, float* const* out, int num_in, const float* const* in, const float* weights,
             std::int64_t count, bool accumulate);

template <class T>
void dot_all(int num_a, const T* const* a, int num_b, const T* const* b, std::int64_t count, T* products) {
  for (int i = 0; i < num_a; ++i) {
    for (int j = 0; j < num_b; ++j) {
      T sum = 0;
      for (std::int64_t at = 0; at < count; ++at) sum += a[i][at] * b[j][at];
      products[i * num_b + j] = sum;
    }
  }
}

template <class T>
void combine(int num_out, T* const* out, int num_in, const T* const* in, const T* weights, std::int64_t count,
             bool accumulate) {
  for (int o = 0; o < num_out; ++o) {
    for (std::int64_t at = 0; at < count; ++at) {
      T sum = accumulate ? out[o][at] : T{0};
      for (int i = 0; i < num_in; ++i) sum += weights[o * num_in + i] * in[i][at];
      out[o][at] = sum;
    }
  }
}

}  // namespace baleen::row_math
