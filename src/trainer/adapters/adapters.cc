#include "trainer/adapters/adapters.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model_files/random.h"
#include "trainer/config/tensor_patterns.h"
#include "trainer/optimiser/parameter_groups.h"

namespace baleen {
namespace {

std::vector<std::size_t> chosen_matrices(const std::vector<TensorSpec>& table, const TrainConfig& config) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].is_matrix() && is_chosen(table[i].name, config.tune.tensors)) chosen.push_back(i);
  if (chosen.empty())
    fail(
        "tune.tensors: none of the chosen tensors is a dense or an expert matrix, which alone have adapters");
  return chosen;
}

std::vector<TensorSpec> factor_table(const std::vector<TensorSpec>& table,
                                     const std::vector<std::size_t>& chosen, std::int64_t rank) {
  std::vector<TensorSpec> factors;
  const auto add = [&](const TensorSpec& matrix, std::string_view suffix, std::int64_t rows,
                       std::int64_t columns) {
    TensorSpec factor = matrix;
    factor.name += suffix;
    factor.shape = {rows, columns};
    factor.storage = Storage::kF32;
    factor.kind = TensorKind::kAdapter;
    factors.push_back(std::move(factor));
  };
  for (const std::size_t i : chosen) {
    add(table[i], kLoraA, rank, table[i].shape[1]);
    add(table[i], kLoraB, table[i].shape[0], rank);
  }
  return factors;
}

}  // namespace

Adapters::Adapters(const TrainConfig& config)
    : table_(tensor_table(config.model)),
      chosen_(chosen_matrices(table_, config)),
      base_(table_.size()),
      factors_(factor_table(table_, chosen_, config.lora.rank)),
      rank_(config.lora.rank),
      scale_(config.lora.scale()) {
  for (std::size_t j = 0; j < chosen_.size(); ++j) {
    base_[chosen_[j]].resize(static_cast<std::size_t>(table_[chosen_[j]].num_elements()));
    const TensorSpec& spec = factors_.spec(2 * j);
    const CounterRandom random(config.run.seed, spec.name);
    const double deviation = 1 / std::sqrt(static_cast<double>(spec.shape[1]));
    const std::span<float> a = factors_.values(2 * j);
    for (std::size_t at = 0; at < a.size(); ++at) a[at] = static_cast<float>(deviation * random.normal(at));
  }
}

LowRankShape Adapters::shape(std::size_t i) const {
  return {.out = table_[i].shape[0], .in = table_[i].shape[1], .rank = rank_, .scale = scale_};
}

void Adapters::set_base(const Parameters<float>& weights) {
  for (const std::size_t i : chosen_) std::ranges::copy(weights.values(i), base_[i].begin());
}

void Adapters::merge(Parameters<float>& weights) const {
  for (std::size_t j = 0; j < chosen_.size(); ++j) {
    const std::size_t i = chosen_[j];
    low_rank_forward(shape(i), base_[i].data(), factors_.values(2 * j).data(),
                     factors_.values(2 * j + 1).data(), weights.values(i).data());
  }
}

void Adapters::gradients(const Parameters<float>& of_weights, Parameters<float>& gradients) const {
  gradients.set_zero();
  for (std::size_t j = 0; j < chosen_.size(); ++j) {
    const std::size_t i = chosen_[j];
    low_rank_backward(shape(i), factors_.values(2 * j).data(), factors_.values(2 * j + 1).data(),
                      of_weights.values(i).data(), gradients.values(2 * j).data(),
                      gradients.values(2 * j + 1).data());
  }
}

}  // namespace baleen
