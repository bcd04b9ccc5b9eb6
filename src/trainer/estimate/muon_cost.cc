#include "trainer/estimate/muon_cost.h"

#include "model/tensor_table.h"
#include "trainer/optimiser/parameter_groups.h"
#include "trainer/optimiser/tensor_homes.h"

namespace baleen {
namespace {

OptimiserCost cost_of(const TensorSpec& tensor, const TrainConfig& config) {
  const ParameterGroup group = parameter_group(tensor, config);
  if (group.rule == UpdateRule::kMuon)
    return {.muon_flops = update_flops(tensor, group), .muon_parameters = tensor.num_elements()};
  if (group.rule == UpdateRule::kAdamW) return {.adamw_parameters = tensor.num_elements()};
  return {};
}

}  // namespace

OptimiserCost& OptimiserCost::operator+=(const OptimiserCost& other) {
  muon_flops += other.muon_flops;
  muon_parameters += other.muon_parameters;
  adamw_parameters += other.adamw_parameters;
  return *this;
}

ModelOptimiserCost optimiser_cost(const ModelConfig& config) {
  TrainConfig training;
  training.model = config;
  ModelOptimiserCost cost;
  for (const TensorSpec& tensor : tensor_table(config))
    (tensor.role == TensorRole::kRoutedExpert ? cost.experts : cost.dense) += cost_of(tensor, training);
  return cost;
}

}  // namespace baleen
