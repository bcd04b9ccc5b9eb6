#include <algorithm>
#include <cmath>

#include "ops/hc_pre/hc_mix.h"

namespace baleen {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// Divides every element by its row's sum + eps; `step` 1 and `stride` n for rows, the other way round for
/// columns.
void divide_by_sums(std::vector<double>& c, std::size_t n, std::size_t stride, std::size_t step, double eps) {
  for (std::size_t j = 0; j < n; ++j) {
    double sum = 0.0;
    for (std::size_t k = 0; k < n; ++k) sum += c[j * stride + k * step];
    for (std::size_t k = 0; k < n; ++k) c[j * stride + k * step] /= sum + eps;
  }
}

void sinkhorn(std::vector<double>& c, std::size_t n, int iterations, double eps) {
  for (std::size_t j = 0; j < n; ++j) {
    double* row = c.data() + j * n;
    const double largest = *std::max_element(row, row + n);
    double sum = 0.0;
    for (std::size_t k = 0; k < n; ++k) sum += row[k] = std::exp(row[k] - largest);
    for (std::size_t k = 0; k < n; ++k) row[k] = row[k] / sum + eps;
  }
  divide_by_sums(c, n, 1, n, eps);
  for (int i = 1; i < iterations; ++i) {
    divide_by_sums(c, n, n, 1, eps);
    divide_by_sums(c, n, 1, n, eps);
  }
}

}  // namespace

void hc_pre_ref(const HcPreArgs& args) {
  const auto n = static_cast<std::size_t>(args.streams.extent(1));
  const HcWeights& weights = args.weights;
  for (std::int64_t t = 0; t < args.streams.extent(0); ++t) {
    std::vector<double> m = hc_mixes_ref(args.streams[t], weights, args.norm_eps);
    for (std::size_t i = 0; i < m.size(); ++i) {
      m[i] = m[i] * weights.scale[std::min<std::size_t>(i / n, 2)] + weights.base[i];
    }
    std::vector<double> pre(n);
    for (std::size_t j = 0; j < n; ++j) {
      pre[j] = sigmoid(m[j]) + args.hc_eps;
      args.post(t, j) = static_cast<float>(2.0 * sigmoid(m[n + j]));
    }
    std::vector<double> comb(m.begin() + static_cast<std::ptrdiff_t>(2 * n), m.end());
    sinkhorn(comb, n, args.sinkhorn_iterations, args.hc_eps);
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = 0; k < n; ++k) args.comb(t, j, k) = static_cast<float>(comb[j * n + k]);
    }
    weighted_stream_sum_ref(args.streams[t], pre, args.precision, args.u.row(t));
  }
}

}  // namespace baleen
