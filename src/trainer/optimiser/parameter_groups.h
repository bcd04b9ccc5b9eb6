/// What updates each tensor, and as which matrices. (source: training 3)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/tensor_table.h"
#include "trainer/config/train_config.h"

namespace baleen {

/// Factors of low-rank adapters are called after their matrix (trainer/adapters/).
inline constexpr std::string_view kLoraA = ".lora_a";
inline constexpr std::string_view kLoraB = ".lora_b";

/// kBalance: routing biases, which have no gradient. kConstant: hash tables, and what `tune.tensors` leaves
/// out.
enum class UpdateRule : std::uint8_t { kMuon, kAdamW, kBalance, kConstant };

struct ParameterGroup {
  UpdateRule rule = UpdateRule::kConstant;
  double weight_decay = 0;
  /// Trained by the indexers' own loss, hence with a gradient norm of their own.
  bool is_indexer = false;
  /// Of kMuon: rows of each logically independent matrix, in order; together they are all rows.
  std::vector<std::int64_t> matrix_rows = {};
};

[[nodiscard]] ParameterGroup parameter_group(const TensorSpec& tensor, const TrainConfig& config);

/// One line for each rule and weight decay: how many tensors, matrices and parameters, and an example.
[[nodiscard]] std::string groups_text(const std::vector<TensorSpec>& table, const TrainConfig& config);

}  // namespace baleen
