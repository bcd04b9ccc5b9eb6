/// Sums and updates of rows, for training. Of floats: SIMD of the instruction set in use, so that sums
/// differ in the last bits between instruction sets and never between calls. Of doubles: the plain loops
/// that specify them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace baleen::row_math {

/// Σ x y
[[nodiscard]] float dot(const float* x, const float* y, std::int64_t count);
/// Σ w x y
[[nodiscard]] float dot(const float* w, const float* x, const float* y, std::int64_t count);
/// y += alpha x
void add_scaled(float alpha, const float* x, float* y, std::int64_t count);
/// x *= alpha
void scale(float alpha, float* x, std::int64_t count);
/// x = e^(x - shift); the sum of the results.
float exp_and_sum(float shift, float* x, std::int64_t count);
/// x = 1 / (1 + e^-x)
void sigmoid(float* x, std::int64_t count);

template <class T>
[[nodiscard]] T dot(const T* x, const T* y, std::int64_t count) {
  T sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

template <class T>
[[nodiscard]] T dot(const T* w, const T* x, const T* y, std::int64_t count) {
  T sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += w[i] * x[i] * y[i];
  return sum;
}

template <class T>
void add_scaled(T alpha, const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += alpha * x[i];
}

template <class T>
void scale(T alpha, T* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] *= alpha;
}

template <class T>
T exp_and_sum(T shift, T* x, std::int64_t count) {
  T sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] = std::exp(x[i] - shift);
  return sum;
}

template <class T>
void sigmoid(T* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = T{1} / (T{1} + std::exp(-x[i]));
}

}  // namespace baleen::row_math
