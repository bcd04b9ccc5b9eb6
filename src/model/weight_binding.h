/// Where the forward pass wants each tensor of the table: the one place that knows both the names and the
/// tree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/tensor_split.h"
#include "model/weight_tree.h"

namespace baleen {

/// Gives arrays by the names of the table (model/tensor_table.h): a checkpoint's, or shapes without bytes.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// `stem` without ".weight".
  [[nodiscard]] virtual WeightMatrix matrix(const std::string& stem) = 0;
  [[nodiscard]] virtual std::span<const float> vector(const std::string& name) = 0;
  [[nodiscard]] virtual View<const float, 2> table(const std::string& name) = 0;
  [[nodiscard]] virtual View<const Bf16Bits, 2> embedding(const std::string& name) = 0;
  [[nodiscard]] virtual View<const std::int32_t, 2> hash_table(const std::string& name) = 0;
  /// Experts 0 .. count - 1 under `prefix`, "layers.0.ffn.experts.".
  [[nodiscard]] virtual std::vector<ExpertWeights> experts(const std::string& prefix, std::int64_t count);
  [[nodiscard]] ExpertWeights expert(const std::string& prefix);
};

/// The tree of a rank's share of a model.
[[nodiscard]] WeightTree bind_weights(const ModelConfig& config, const RankShare& share,
                                      TensorSource& source);

}  // namespace baleen
