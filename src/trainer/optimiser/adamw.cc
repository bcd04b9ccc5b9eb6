#include "trainer/optimiser/adamw.h"

#include <algorithm>
#include <cmath>

namespace baleen {

void adamw_step(const AdamWConfig& config, double weight_decay, double learning_rate, std::int64_t update,
                std::span<const float> gradient, AdamWState state, std::span<float> weights,
                ThreadPool& pool) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 14;
  const auto size = static_cast<std::int64_t>(weights.size());
  const double first_correction = 1 - std::pow(config.beta1, static_cast<double>(update));
  const double second_correction = 1 - std::pow(config.beta2, static_cast<double>(update));
  const double keep = 1 - learning_rate * weight_decay;
  pool.parallel_for((size + kChunk - 1) / kChunk, [&](std::int64_t chunk, int) {
    const auto end = static_cast<std::size_t>(std::min(size, (chunk + 1) * kChunk));
    for (auto i = static_cast<std::size_t>(chunk * kChunk); i < end; ++i) {
      const double g = gradient[i];
      const double m = config.beta1 * state.first[i] + (1 - config.beta1) * g;
      const double v = config.beta2 * state.second[i] + (1 - config.beta2) * g * g;
      state.first[i] = static_cast<float>(m);
      state.second[i] = static_cast<float>(v);
      const double step = m / first_correction / (std::sqrt(v / second_correction) + config.epsilon);
      weights[i] = static_cast<float>(weights[i] * keep - learning_rate * step);
    }
  });
}

}  // namespace baleen
