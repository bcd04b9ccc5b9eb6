#include "trainer/optimiser/gradient_norm.h"

#include <cmath>

namespace baleen {

GradientNorms gradient_norms(const Parameters<float>& gradients, const std::vector<ParameterGroup>& groups,
                             ThreadPool& pool) {
  std::vector<double> squares(gradients.size());
  pool.parallel_for(static_cast<std::int64_t>(gradients.size()), [&](std::int64_t tensor, int) {
    double sum = 0;
    if (groups[static_cast<std::size_t>(tensor)].rule == UpdateRule::kConstant) return;
    for (const float g : gradients.values(static_cast<std::size_t>(tensor)))
      sum += static_cast<double>(g) * static_cast<double>(g);
    squares[static_cast<std::size_t>(tensor)] = sum;
  });
  GradientNorms norms;
  for (std::size_t i = 0; i < squares.size(); ++i) {
    (groups[i].is_indexer ? norms.indexer : norms.trunk) += squares[i];
    if (!std::isfinite(squares[i]) && norms.not_finite.empty()) norms.not_finite = gradients.spec(i).name;
  }
  norms.trunk = std::sqrt(norms.trunk);
  norms.indexer = std::sqrt(norms.indexer);
  return norms;
}

void clip_gradients(Parameters<float>& gradients, const std::vector<ParameterGroup>& groups,
                    const GradientNorms& norms, double limit, ThreadPool& pool) {
  if (limit == 0) return;
  pool.parallel_for(static_cast<std::int64_t>(gradients.size()), [&](std::int64_t tensor, int) {
    const auto i = static_cast<std::size_t>(tensor);
    const double norm = groups[i].is_indexer ? norms.indexer : norms.trunk;
    if (norm <= limit) return;
    const auto scale = static_cast<float>(limit / norm);
    for (float& g : gradients.values(i)) g *= scale;
  });
}

}  // namespace baleen
