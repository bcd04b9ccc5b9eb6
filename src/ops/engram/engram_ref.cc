#include "ops/engram/engram.h"

namespace baleen {
namespace {

double inverse_rms(std::span<const float> values, float eps) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return 1.0 / std::sqrt(sum / static_cast<double>(values.size()) + eps);
}

/// Of one stream.
float fit(std::span<const float> x, std::span<const Bf16Bits> q, std::span<const Bf16Bits> k,
          std::span<const float> key, float eps) {
  double sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sum += static_cast<double>(x[i]) * bf16_to_float(q[i]) * bf16_to_float(k[i]) * key[i];
  return static_cast<float>(sum * inverse_rms(x, eps) * inverse_rms(key, eps) /
                            std::sqrt(static_cast<double>(x.size())));
}

}  // namespace

void engram_ref(const EngramArgs& args) {
  const std::int64_t n = args.num_streams();
  const auto d = static_cast<std::size_t>(args.width());
  for (std::int64_t row = 0; row < args.streams.extent(0); ++row) {
    if (args.tokens[static_cast<std::size_t>(row)] == args.image_token) continue;
    const View<float, 2> streams = args.streams[row];
    const std::span<const float> projected = args.projected.row(row);
    const std::span<const float> value = projected.last(d);
    for (std::int64_t s = 0; s < n; ++s) {
      const std::span<float> x = streams.row(s);
      const auto key = projected.subspan(static_cast<std::size_t>(s) * d, d);
      const float gate = engram_gate(fit(x, args.q_weight.row(s), args.k_weight.row(s), key, args.eps));
      for (std::size_t i = 0; i < d; ++i) {
        const float sum = x[i] + gate * value[i];
        x[i] = args.precision == Precision::kExact ? sum : round_bf16(sum);
      }
    }
  }
}

}  // namespace baleen
