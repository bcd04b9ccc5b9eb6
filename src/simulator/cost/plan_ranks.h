/// The ranks of one plan, each made when it is first needed and kept: making one walks the whole table of
/// tensors (about 1 ms), estimating a step with it takes less.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engram/engram_place.h"
#include "simulator/graph/rank_model.h"

namespace baleen {

/// A model to simulate: its geometry and how its matrices are stored.
struct SimulatedModel {
  std::string name;
  ModelConfig config;
  StorageFormats formats;
  EngramWish engram = EngramWish::kAuto;  ///< where its tables of n-grams are wanted, if it has any
};

/// Not thread-safe.
class PlanRanks {
 public:
  /// `plan` resolved and legal. `model` outlives this.
  PlanRanks(const SimulatedModel& model, const ParallelPlan& plan) : model_(model), plan_(plan) {}

  [[nodiscard]] const SimulatedModel& model() const { return model_; }
  [[nodiscard]] const ParallelPlan& plan() const { return plan_; }
  /// The first rank of a stage. Valid while this is.
  [[nodiscard]] const RankModel& of(const Stage& stage) const;
  /// Of a stage that has all layers.
  [[nodiscard]] const RankModel& whole() const;

 private:
  const SimulatedModel& model_;
  ParallelPlan plan_;
  mutable std::vector<std::unique_ptr<RankModel>> ranks_;  ///< one for each stage
};

}  // namespace baleen
