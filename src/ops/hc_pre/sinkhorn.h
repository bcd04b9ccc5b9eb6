/// Sinkhorn normalisation of n x n coefficients as it is specified, with every step kept, and its backward
/// through all steps (not through the limit, which 20 steps do not reach for peaked inputs).
/// (source: forward pass 4.1, training 11.3)
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "ops/hc_pre/hc_pre.h"

namespace baleen {

template <class T>
class Sinkhorn {
 public:
  Sinkhorn(int n, int iterations, double eps) : n_(n), iterations_(iterations), eps_(static_cast<T>(eps)) {
    sums_.resize(static_cast<std::size_t>(2 * iterations - 1) * kMaxStreams);
  }

  /// comb [n, n] of a [n, n].
  void forward(const T* a, T* comb) {
    for (int row = 0; row < n_; ++row) {
      const T* in = a + row * n_;
      const T top = *std::max_element(in, in + n_);
      T sum = 0;
      for (int k = 0; k < n_; ++k) sum += comb[row * n_ + k] = std::exp(in[k] - top);
      for (int k = 0; k < n_; ++k) {
        soft_[row * n_ + k] = comb[row * n_ + k] / sum;
        comb[row * n_ + k] = soft_[row * n_ + k] + eps_;
      }
    }
    for (int step = 0; step < num_steps(); ++step) {
      for (int line = 0; line < n_; ++line) {
        T sum = 0;
        for (int i = 0; i < n_; ++i) sum += comb[at(step, line, i)];
        divisor(step, line) = sum + eps_;
        for (int i = 0; i < n_; ++i) comb[at(step, line, i)] /= sum + eps_;
      }
    }
  }

  /// da [n, n] (overwritten) of dcomb, after `forward` of the same a, which gave `comb`. Both are used up.
  void backward(T* comb, T* dcomb, T* da) {
    for (int step = num_steps() - 1; step >= 0; --step) {
      for (int line = 0; line < n_; ++line) {
        T dot = 0;
        for (int i = 0; i < n_; ++i) dot += dcomb[at(step, line, i)] * comb[at(step, line, i)];
        for (int i = 0; i < n_; ++i) {
          T& d = dcomb[at(step, line, i)];
          d = (d - dot) / divisor(step, line);
          comb[at(step, line, i)] *= divisor(step, line);
        }
      }
    }
    for (int row = 0; row < n_; ++row) {
      T dot = 0;
      for (int k = 0; k < n_; ++k) dot += dcomb[row * n_ + k] * soft_[row * n_ + k];
      for (int k = 0; k < n_; ++k) da[row * n_ + k] = soft_[row * n_ + k] * (dcomb[row * n_ + k] - dot);
    }
  }

 private:
  [[nodiscard]] int num_steps() const { return 2 * iterations_ - 1; }
  /// Even steps divide columns, odd steps rows.
  [[nodiscard]] int at(int step, int line, int i) const {
    return step % 2 == 0 ? i * n_ + line : line * n_ + i;
  }
  T& divisor(int step, int line) { return sums_[static_cast<std::size_t>(step * kMaxStreams + line)]; }

  int n_;
  int iterations_;
  T eps_;
  std::array<T, kMaxStreams * kMaxStreams> soft_{};
  std::vector<T> sums_;
};

}  // namespace baleen
