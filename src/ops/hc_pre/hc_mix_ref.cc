#include <cmath>

#include "numeric/bf16.h"
#include "ops/hc_pre/hc_mix.h"

namespace baleen {

std::vector<double> hc_mixes_ref(ConstActivations<2> streams, const HcWeights& weights, float norm_eps) {
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
  const double rho = 1.0 / std::sqrt(sum / static_cast<double>(streams.size()) + norm_eps);
  for (double& mix : mixes) mix *= rho;
  return mixes;
}

void weighted_stream_sum_ref(ConstActivations<2> streams, const std::vector<double>& pre, Precision precision,
                             std::span<float> y) {
  for (std::int64_t i = 0; i < streams.extent(1); ++i) {
    double sum = 0.0;
    for (std::int64_t stream = 0; stream < streams.extent(0); ++stream) {
      sum += pre[static_cast<std::size_t>(stream)] * streams(stream, i);
    }
    const auto value = static_cast<float>(sum);
    y[static_cast<std::size_t>(i)] = precision == Precision::kExact ? value : round_bf16(value);
  }
}

}  // namespace baleen
