#include <cmath>

#include "numeric/bf16.h"
#include "ops/hc_pre/hc_mix.h"

namespace baleen {

template <class T>
std::vector<double> hc_mixes_ref(View<const T, 2> streams, const HcWeightsOf<T>& weights, float norm_eps,
                                 std::span<T> products) {
  const std::int64_t width = streams.extent(1);
  std::vector<double> mixes(static_cast<std::size_t>(weights.fn.extent(0)), 0.0);
  double sum = 0.0;
  for (std::int64_t stream = 0; stream < streams.extent(0); ++stream) {
    for (std::int64_t i = 0; i < width; ++i) {
      const double x = streams(stream, i);
      sum += x * x;
      for (std::size_t mix = 0; mix < mixes.size(); ++mix)
        mixes[mix] += weights.fn(mix, stream * width + i) * x;
    }
  }
  for (std::size_t mix = 0; mix < products.size(); ++mix) products[mix] = static_cast<T>(mixes[mix]);
  const double rho = 1.0 / std::sqrt(sum / static_cast<double>(streams.size()) + norm_eps);
  for (double& mix : mixes) mix *= rho;
  return mixes;
}

template <class T>
void weighted_stream_sum_ref(View<const T, 2> streams, const std::vector<double>& pre, Precision precision,
                             std::span<T> y) {
  for (std::int64_t i = 0; i < streams.extent(1); ++i) {
    double sum = 0.0;
    for (std::int64_t stream = 0; stream < streams.extent(0); ++stream) {
      sum += pre[static_cast<std::size_t>(stream)] * streams(stream, i);
    }
    const auto value = static_cast<T>(sum);
    y[static_cast<std::size_t>(i)] =
        precision == Precision::kExact ? value : round_bf16(static_cast<float>(value));
  }
}

template std::vector<double> hc_mixes_ref(View<const float, 2>, const HcWeightsOf<float>&, float,
                                          std::span<float>);
template std::vector<double> hc_mixes_ref(View<const double, 2>, const HcWeightsOf<double>&, float,
                                          std::span<double>);
template void weighted_stream_sum_ref(View<const float, 2>, const std::vector<double>&, Precision,
                                      std::span<float>);
template void weighted_stream_sum_ref(View<const double, 2>, const std::vector<double>&, Precision,
                                      std::span<double>);

}  // namespace baleen
