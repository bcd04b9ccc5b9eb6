#include "trainer/optimiser/parameter_groups.h"

#include <map>
#include <utility>

#include "base/check.h"
#include "base/number.h"
#include "trainer/config/tensor_patterns.h"

namespace baleen {
namespace {

bool is_compressor_matrix(std::string_view name) {
  return name.ends_with("compressor.wkv.weight") || name.ends_with("compressor.wgate.weight");
}

/// Rows of the matrices that the technical report names by symbols of their own.
std::vector<std::int64_t> matrix_rows(const TensorSpec& tensor, const ModelConfig& config) {
  const std::string_view name = tensor.name;
  const std::int64_t rows = tensor.shape[0], n = config.hc_mult;
  const auto equal_parts = [rows](std::int64_t part) {
    BALEEN_CHECK_EQ(rows % part, 0);
    return std::vector<std::int64_t>(static_cast<std::size_t>(rows / part), part);
  };
  if (name.ends_with("hc_attn_fn") || name.ends_with("hc_ffn_fn")) return {n, n, n * n};
  if (name.ends_with("attn.wo_a")) return equal_parts(config.o_lora_rank);
  if (is_compressor_matrix(name)) {
    const bool of_indexer = name.find(".indexer.") != std::string_view::npos;
    return equal_parts(of_indexer ? config.index_head_dim : config.head_dim);
  }
  return {rows};
}

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
  const std::string_view name = tensor.name;
  const bool is_indexer = tensor.role == TensorRole::kIndexer;
  if (is_adapter(tensor)) return {.rule = UpdateRule::kAdamW, .is_indexer = is_indexer};
  if (tensor.storage == Storage::kI64 || !is_chosen(tensor.name, config.tune.tensors))
    return {.rule = UpdateRule::kConstant};
  if (name.ends_with("gate.bias")) return {.rule = UpdateRule::kBalance};
  ParameterGroup group{.rule = UpdateRule::kAdamW, .is_indexer = is_indexer};
  const bool is_norm = tensor.shape.size() == 1 && name.ends_with("norm.weight");
  const bool is_vocabulary = tensor.role == TensorRole::kEmbedding || tensor.role == TensorRole::kHead;
  const bool is_matrix = tensor.shape.size() == 2 && !name.ends_with(".ape");
  if (is_norm) {
    group.weight_decay = config.adamw.decay_norms ? config.adamw.weight_decay : 0;
  } else if (is_matrix && !is_vocabulary && config.optimizer.matrices == MatrixOptimizer::kMuon) {
    group.rule = UpdateRule::kMuon;
    group.weight_decay = config.muon.weight_decay;
    group.matrix_rows = matrix_rows(tensor, config.model);
  } else if (is_matrix) {
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
