#include "trainer/optimiser/gradient_norm.h"

#include <cmath>

namespace baleen {

std::vector<double> gradient_squares(const Parameters<float>& gradients, std::span<const std::size_t> tensors,
                                     ThreadPool& pool) {
  std::vector<double> squares(gradients.size());
  pool.parallel_for(std::ssize(tensors), [&](std::int64_t at, int) {
    const std::size_t tensor = tensors[static_cast<std::size_t>(at)];
    double sum = 0;
    for (const float g : gradients.values(tensor)) sum += static_cast<double>(g) * static_cast<double>(g);
    squares[tensor] = sum;
  });
  return squares;
}

GradientNorms gradient_norms(const std::vector<TensorSpec>& table, const std::vector<ParameterGroup>& groups,
                             std::span<const double> squares) {
  GradientNorms norms;
  for (std::size_t i = 0; i < squares.size(); ++i) {
    (groups[i].is_indexer ? norms.indexer : norms.trunk) += squares[i];
    if (!std::isfinite(squares[i]) && norms.not_finite.empty()) norms.not_finite = table[i].name;
  }
  norms.trunk = std::sqrt(norms.trunk);
  norms.indexer = std::sqrt(norms.indexer);
  return norms;
}

void clip_gradients(Parameters<float>& gradients, std::span<const std::size_t> tensors,
                    const std::vector<ParameterGroup>& groups, const GradientNorms& norms, double limit,
                    ThreadPool& pool) {
  if (limit == 0) return;
  pool.parallel_for(std::ssize(tensors), [&](std::int64_t at, int) {
    const std::size_t i = tensors[static_cast<std::size_t>(at)];
    const double norm = groups[i].is_indexer ? norms.indexer : norms.trunk;
    if (norm <= limit) return;
    const auto scale = static_cast<float>(limit / norm);
    for (float& g : gradients.values(i)) g *= scale;
  });
}

}  // namespace baleen
