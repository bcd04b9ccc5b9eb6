#include "simulator/training/muon_cost.h"

#include <algorithm>
#include <string_view>

namespace baleen {
namespace {

constexpr int kNewtonSchulzSteps = 10;

/// Into how many matrices of equal shape a tensor falls.
std::int64_t num_matrices(const TensorSpec& tensor, const ModelConfig& config) {
  const std::string_view name = tensor.name;
  const bool compressor = name.find("compressor.w") != std::string_view::npos;
  if (compressor && config.attention(tensor.block).overlaps) return 2;
  if (name.ends_with("wo_a")) return config.o_groups;
  return 1;
}

bool is_mixing(const TensorSpec& tensor) {
  return tensor.role == TensorRole::kHyperConnection && tensor.shape.size() == 2;
}

}  // namespace

double newton_schulz_flops(std::int64_t rows, std::int64_t cols) {
  const auto p = static_cast<double>(std::min(rows, cols)), q = static_cast<double>(std::max(rows, cols));
  return kNewtonSchulzSteps * (4 * p * p * q + 2 * p * p * p);
}

OptimiserCost& OptimiserCost::operator+=(const OptimiserCost& other) {
  muon_flops += other.muon_flops;
  muon_parameters += other.muon_parameters;
  adamw_parameters += other.adamw_parameters;
  return *this;
}

OptimiserCost optimiser_cost(const TensorSpec& tensor, const ModelConfig& config) {
  const std::int64_t elements = tensor.num_elements();
  const std::string_view name = tensor.name;
  if (tensor.storage == Storage::kI64 || name.ends_with("gate.bias")) return {};
  const bool table = tensor.role == TensorRole::kEmbedding || tensor.role == TensorRole::kHead;
  if (table || tensor.shape.size() < 2 || name.ends_with(".ape")) return {.adamw_parameters = elements};
  OptimiserCost cost{.muon_parameters = elements};
  const std::int64_t rows = tensor.shape[0], cols = tensor.shape[1], streams = config.hc_mult;
  if (is_mixing(tensor) && rows > streams) {  // reads, writes, and between streams
    cost.muon_flops = 2 * newton_schulz_flops(streams, cols) + newton_schulz_flops(streams * streams, cols);
  } else {
    const std::int64_t count = num_matrices(tensor, config);
    cost.muon_flops = static_cast<double>(count) * newton_schulz_flops(rows / count, cols);
  }
  return cost;
}

ModelOptimiserCost optimiser_cost(const ModelConfig& config) {
  ModelOptimiserCost cost;
  for (const TensorSpec& tensor : tensor_table(config)) {
    (tensor.role == TensorRole::kRoutedExpert ? cost.experts : cost.dense) += optimiser_cost(tensor, config);
  }
  return cost;
}

}  // namespace baleen
