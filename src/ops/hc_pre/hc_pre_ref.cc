#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/hc_pre/hc_mix.h"
#include "ops/hc_pre/sinkhorn.h"

namespace baleen {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

template <class T>
void enter(const HcPreArgsOf<T>& args) {
  const auto n = static_cast<std::size_t>(args.streams.extent(1));
  const HcWeightsOf<T>& weights = args.weights;
  Sinkhorn<double> sinkhorn(static_cast<int>(n), args.sinkhorn_iterations, args.hc_eps);
  for (std::int64_t t = 0; t < args.streams.extent(0); ++t) {
    std::vector<double> m = hc_mixes_ref<T>(args.streams[t], weights, args.norm_eps,
                                            args.products.empty() ? std::span<T>() : args.products.row(t));
    for (std::size_t i = 0; i < m.size(); ++i) {
      m[i] = m[i] * weights.scale[std::min<std::size_t>(i / n, 2)] + weights.base[i];
    }
    std::vector<double> pre(n);
    for (std::size_t j = 0; j < n; ++j) {
      pre[j] = sigmoid(m[j]) + args.hc_eps;
      args.post(t, j) = static_cast<T>(2.0 * sigmoid(m[n + j]));
    }
    std::vector<double> comb(n * n);
    sinkhorn.forward(m.data() + 2 * n, comb.data());
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = 0; k < n; ++k) args.comb(t, j, k) = static_cast<T>(comb[j * n + k]);
    }
    const std::vector<double> own = pre;
    if (args.lags()) pre.assign(args.incoming.row(t).begin(), args.incoming.row(t).end());
    weighted_stream_sum_ref<T>(args.streams[t], pre, args.precision, args.u.row(t));
    for (std::size_t j = 0; j < n && !args.pre.empty(); ++j) args.pre(t, j) = static_cast<T>(own[j]);
  }
}

}  // namespace

void hc_pre_ref(const HcPreArgs& args) { enter(args); }
void hc_pre_f64(const HcPreArgsOf<double>& args) { enter(args); }

}  // namespace baleen
