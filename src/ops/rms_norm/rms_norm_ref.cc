#include <cmath>

#include "numeric/bf16.h"
#include "ops/rms_norm/rms_norm.h"

namespace baleen {
namespace {

template <class T>
void norm_with_weight(std::span<const T> x, std::span<const T> weight, float eps, bool round,
                      std::span<T> y) {
  double sum = 0.0;
  for (const T value : x) sum += static_cast<double>(value) * value;
  const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto value = static_cast<T>((weight.empty() ? 1.0 : weight[i]) * (x[i] * inverse));
    y[i] = round ? round_bf16(static_cast<float>(value)) : value;
  }
}

template <class T>
void norm_step_by_step(std::span<const T> x, float eps, std::span<T> y) {
  double sum = 0.0;
  for (const T value : x) sum += round_bf16(static_cast<float>(value) * static_cast<float>(value));
  const float mean = round_bf16(static_cast<float>(sum / static_cast<double>(x.size())));
  const float inverse = round_bf16(1.0F / std::sqrt(round_bf16(mean + eps)));
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = round_bf16(static_cast<float>(x[i]) * inverse);
}

template <class T>
void norm_rows(const RmsNormArgsOf<T>& args) {
  const bool round = args.precision != Precision::kExact;
  for (std::int64_t row = 0; row < args.x.extent(0); ++row) {
    if (args.weight.empty() && round) {
      norm_step_by_step<T>(args.x.row(row), args.eps, args.y.row(row));
    } else {
      norm_with_weight<T>(args.x.row(row), args.weight, args.eps, round, args.y.row(row));
    }
  }
}

}  // namespace

void rms_norm_ref(const RmsNormArgs& args) { norm_rows(args); }
void rms_norm_f64(const RmsNormArgsOf<double>& args) { norm_rows(args); }

}  // namespace baleen
