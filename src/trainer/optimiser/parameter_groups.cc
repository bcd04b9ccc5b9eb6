#include "trainer/optimiser/parameter_groups.h"

#include <map>
#include <utility>

#include "base/number.h"
#include "trainer/config/tensor_patterns.h"

namespace baleen {
namespace {

std::string_view rule_name(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::kMuon:
      return "Muon";
    case UpdateRule::kAdamW:
      return "AdamW";
    case UpdateRule::kBalance:
      return "balance";
    case UpdateRule::kConstant:
      break;
  }
  return "constant";
}

}  // namespace

ParameterGroup parameter_group(const TensorSpec& tensor, const TrainConfig& config) {
  const bool is_indexer = tensor.role == TensorRole::kIndexer;
  if (tensor.kind == TensorKind::kAdapter) return {.rule = UpdateRule::kAdamW, .is_indexer = is_indexer};
  if (tensor.kind == TensorKind::kIds || !is_chosen(tensor.name, config.tune.tensors))
    return {.rule = UpdateRule::kConstant};
  if (tensor.kind == TensorKind::kRoutingBias) return {.rule = UpdateRule::kBalance};
  ParameterGroup group{.rule = UpdateRule::kAdamW, .is_indexer = is_indexer};
  const bool is_vocabulary = tensor.role == TensorRole::kEmbedding || tensor.role == TensorRole::kHead;
  if (tensor.role == TensorRole::kEngramTable) return group;  // a row that few steps read would decay
  if (tensor.kind == TensorKind::kNorm) {
    group.weight_decay = config.adamw.decay_norms ? config.adamw.weight_decay : 0;
  } else if (tensor.is_linear() && !is_vocabulary && config.optimizer.matrices == MatrixOptimizer::kMuon) {
    group.rule = UpdateRule::kMuon;
    group.weight_decay = config.muon.weight_decay;
    group.matrix_rows = tensor.matrix_rows;
    if (group.matrix_rows.empty()) group.matrix_rows = {tensor.shape[0]};
  } else if (tensor.is_linear()) {
    group.weight_decay = config.adamw.weight_decay;
  }
  return group;
}

std::string groups_text(const std::vector<TensorSpec>& table, const TrainConfig& config) {
  struct Line {
    std::int64_t num_tensors = 0, num_matrices = 0, num_parameters = 0;
    std::string example;
  };
  std::map<std::pair<UpdateRule, double>, Line> lines;
  for (const TensorSpec& tensor : table) {
    const ParameterGroup group = parameter_group(tensor, config);
    Line& line = lines[{group.rule, group.weight_decay}];
    if (line.num_tensors++ == 0) line.example = tensor.name;
    line.num_matrices += static_cast<std::int64_t>(group.matrix_rows.size());
    line.num_parameters += tensor.num_elements();
  }
  std::string text = fmt::format("{:<9} {:>6} {:>8} {:>9} {:>15}  {}\n", "update", "decay", "tensors",
                                 "matrices", "values", "for example");
  for (const auto& [key, line] : lines) {
    text += fmt::format("{:<9} {:>6} {:>8} {:>9} {:>15}  {}\n", rule_name(key.first), key.second,
                        grouped(line.num_tensors), grouped(line.num_matrices), grouped(line.num_parameters),
                        line.example);
  }
  return text;
}

}  // namespace baleen
