#include <cmath>

#include "numeric/bf16.h"
#include "ops/rms_norm/rms_norm.h"

namespace baleen {
namespace {

void norm_with_weight(std::span<const float> x, std::span<const float> weight, float eps, bool round,
                      std::span<float> y) {
  double sum = 0.0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto value = static_cast<float>((weight.empty() ? 1.0 : weight[i]) * (x[i] * inverse));
    y[i] = round ? round_bf16(value) : value;
  }
}

void norm_step_by_step(std::span<const float> x, float eps, std::span<float> y) {
  double sum = 0.0;
  for (const float value : x) sum += round_bf16(value * value);
  const float mean = round_bf16(static_cast<float>(sum / static_cast<double>(x.size())));
  const float inverse = round_bf16(1.0F / std::sqrt(round_bf16(mean + eps)));
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = round_bf16(x[i] * inverse);
}

}  // namespace

void rms_norm_ref(const RmsNormArgs& args) {
  const bool round = args.precision != Precision::kExact;
  for (std::int64_t row = 0; row < args.x.extent(0); ++row) {
    if (args.weight.empty() && round) {
      norm_step_by_step(args.x.row(row), args.eps, args.y.row(row));
    } else {
      norm_with_weight(args.x.row(row), args.weight, args.eps, round, args.y.row(row));
    }
  }
}

}  // namespace baleen
