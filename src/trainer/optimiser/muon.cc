#include "trainer/optimiser/muon.h"

#include <algorithm>
#include <cmath>

#include "trainer/optimiser/newton_schulz.h"

namespace baleen {

bool muon_step(const MuonConfig& config, double learning_rate, const MuonMatrix& matrix,
               std::vector<float>& scratch, ThreadPool& pool) {
  if (std::ranges::all_of(matrix.gradient, [](float g) { return g == 0; })) return false;
  const auto mu = static_cast<float>(config.momentum);
  const std::size_t size = matrix.weights.size();
  scratch.resize(size);
  for (std::size_t i = 0; i < size; ++i) {
    matrix.momentum[i] = mu * matrix.momentum[i] + matrix.gradient[i];
    scratch[i] = mu * matrix.momentum[i] + matrix.gradient[i];
  }
  newton_schulz(matrix.rows, matrix.columns, {scratch.data(), size}, pool, matrix.operands);
  const double longer = static_cast<double>(std::max(matrix.rows, matrix.columns));
  const auto step = static_cast<float>(learning_rate * config.update_rms * std::sqrt(longer));
  const auto keep = static_cast<float>(1 - learning_rate * config.weight_decay);
  for (std::size_t i = 0; i < size; ++i) matrix.weights[i] = matrix.weights[i] * keep - step * scratch[i];
  return true;
}

}  // namespace baleen
