/// The first rank of a stage and its share of a model as shapes: the weights that the forward pass of this
/// rank is given, without their bytes.
#pragma once

#include <cstdint>

#include "model/rank_config.h"
#include "model/rank_layout.h"
#include "model/tensor_table.h"
#include "model/weight_tree.h"
#include "tensor/unbacked_memory.h"

namespace baleen {

/// Heads, vocabulary and the shared expert as the tensor-parallel group splits them; of routed experts the
/// slots of one rank, with their part of the inner width. Indexer, compressors, norms, mixing and the router
/// are whole on every rank.
class RankModel {
 public:
  /// `plan` resolved and legal. The whole model.
  RankModel(const ModelConfig& config, const StorageFormats& formats, const ParallelPlan& plan);
  RankModel(const ModelConfig& config, const StorageFormats& formats, const ParallelPlan& plan,
            const Stage& stage);
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  [[nodiscard]] const RankConfig& config() const { return config_; }
  [[nodiscard]] const ParallelPlan& plan() const { return layout_.plan(); }
  [[nodiscard]] const Stage& stage() const { return layout_.stage(); }
  [[nodiscard]] const RankLayout& layout() const { return layout_; }
  [[nodiscard]] const StorageFormats& formats() const { return formats_; }
  /// Addresses mean nothing.
  [[nodiscard]] const WeightTree& weights() const { return weights_; }
  /// What they take on a device.
  [[nodiscard]] std::int64_t weight_bytes() const { return weight_bytes_; }

 private:
  ModelConfig model_config_;  ///< a copy, which `config_` refers to
  RankConfig config_;
  StorageFormats formats_;
  RankLayout layout_;
  UnbackedMemory memory_;
  WeightTree weights_;
  std::int64_t weight_bytes_;
};

}  // namespace baleen
