/// One rank's share of a model as shapes: the weights that the forward pass of this rank is given, without their bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "model/config.h"
#include "model/tensor_table.h"
#include "model/weight_tree.h"
#include "simulator/graph/parallel_plan.h"
#include "tensor/unbacked_memory.h"

namespace baleen {

/// Which weight a matrix is.
struct MatrixPlace {
  std::string_view name;    ///< "wq_a", "indexer.wkv"; "head"
  std::int64_t block = -1;  ///< -1: of no block
};

/// Consecutive layers of a pipeline stage: the first one embeds, the last one has MTP blocks and the head.
struct Stage {
  std::int64_t begin = 0;  ///< layer
  std::int64_t end = 0;    ///< layer after the last
  bool first = true;
  bool last = true;
};

/// The model of `stage` alone, as a config.
[[nodiscard]] ModelConfig stage_config(const ModelConfig& config, const Stage& stage);

/// Heads, vocabulary and the shared expert as the tensor-parallel group splits them; of routed experts the slots of one
/// rank, with their part of the inner width. Indexer, compressors, norms, mixing and the router are whole on every rank.
class RankModel {
 public:
  /// `plan` resolved and legal. The whole model.
  RankModel(const ModelConfig& config, const StorageFormats& formats, const ParallelPlan& plan);
  RankModel(const ModelConfig& config, const StorageFormats& formats, const ParallelPlan& plan,
            const Stage& stage);
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  /// All heads; the stage's layers.
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// With this rank's heads.
  [[nodiscard]] const ModelConfig& rank_config() const { return rank_config_; }
  [[nodiscard]] const ParallelPlan& plan() const { return plan_; }
  [[nodiscard]] const Stage& stage() const { return stage_; }
  [[nodiscard]] const StorageFormats& formats() const { return formats_; }
  [[nodiscard]] const RankShare& share() const { return share_; }
  /// Addresses mean nothing.
  [[nodiscard]] const WeightTree& weights() const { return weights_; }
  /// Null for a matrix that is not one of `weights()`.
  [[nodiscard]] const MatrixPlace* place_of(const WeightMatrix* matrix) const;

 private:
  void note_places();

  ModelConfig config_;
  ModelConfig rank_config_;
  StorageFormats formats_;
  ParallelPlan plan_;
  Stage stage_;
  RankShare share_;
  UnbackedMemory memory_;
  WeightTree weights_;
  std::unordered_map<const WeightMatrix*, MatrixPlace> places_;
};

/// Over how many ranks the shared expert's inner width is split: those that see the same tokens and will add up what they
/// have anyway.
[[nodiscard]] std::int64_t shared_expert_tp(const ModelConfig& config, const ParallelPlan& plan);

}  // namespace baleen
