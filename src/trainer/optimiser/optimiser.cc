#include "trainer/optimiser/optimiser.h"

#include "trainer/optimiser/adamw.h"
#include "trainer/optimiser/muon.h"

namespace baleen {

Optimiser::Optimiser(const TrainConfig& config, const Parameters<float>& weights)
    : muon_(config.muon), adamw_(config.adamw), first_(weights.size()), second_(weights.size()) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    groups_.push_back(parameter_group(weights.spec(i), config));
    const UpdateRule rule = groups_.back().rule;
    const std::size_t size = weights.values(i).size();
    if (rule == UpdateRule::kMuon || rule == UpdateRule::kAdamW) first_[i].resize(size);
    if (rule == UpdateRule::kAdamW) second_[i].resize(size);
  }
}

std::int64_t Optimiser::update_matrices(std::size_t i, Parameters<float>& weights,
                                        const Parameters<float>& gradients, double learning_rate,
                                        ThreadPool& pool) {
  const std::int64_t columns = weights.spec(i).shape[1];
  std::int64_t num_left = 0;
  std::size_t begin = 0;
  for (const std::int64_t rows : groups_[i].matrix_rows) {
    const auto size = static_cast<std::size_t>(rows * columns);
    const MuonMatrix matrix{.rows = rows,
                            .columns = columns,
                            .gradient = gradients.values(i).subspan(begin, size),
                            .momentum = first(i).subspan(begin, size),
                            .weights = weights.values(i).subspan(begin, size)};
    if (!muon_step(muon_, learning_rate, matrix, scratch_, pool)) ++num_left;
    begin += size;
  }
  return num_left;
}

std::int64_t Optimiser::update(Parameters<float>& weights, const Parameters<float>& gradients,
                               double learning_rate, ThreadPool& pool) {
  ++num_updates_;
  std::int64_t num_left = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (groups_[i].rule == UpdateRule::kMuon) {
      num_left += update_matrices(i, weights, gradients, learning_rate, pool);
    } else if (groups_[i].rule == UpdateRule::kAdamW) {
      adamw_step(adamw_, groups_[i].weight_decay, learning_rate, num_updates_, gradients.values(i),
                 {first(i), second(i)}, weights.values(i), pool);
    }
  }
  return num_left;
}

}  // namespace baleen
