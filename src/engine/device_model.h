/// A model where a device runs it: the device, its weights there, and the plan of its memory.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "device/make_device.h"
#include "engine/engine_options.h"
#include "engine/expert_memory.h"
#include "engine/memory_plan.h"
#include "engram/engram_store.h"
#include "engram/shared_tables.h"
#include "model/device_weights.h"
#include "model/rank_config.h"
#include "model/rank_layout.h"
#include "model/weight_tree.h"
#include "model/weights.h"
#include "moe/residence/expert_store.h"

namespace baleen {

/// What a device is to run of a model, all of it or one rank's share, and what that takes.
struct ModelShare {
  RankConfig rank;
  const WeightTree& weights;     ///< the rank's, in the host's memory
  MemoryPlan plan;               ///< what is taken with all weights on the device
  MovableExperts experts;        ///< those for which the device may have no room
  const Checkpoint& checkpoint;  ///< the model's: where tables of n-grams lie, and the tokenizer they go by
  RankLayout layout = {};
  DeviceConnection connection = {};
  /// Of the ranks of this process; null: tables in the host's memory are the rank's own.
  std::shared_ptr<SharedEngramTables> host_tables = nullptr;
};

/// All of a model. `weights` outlive the share.
[[nodiscard]] ModelShare whole_model(const ModelWeights& weights, const EngineOptions& options);

class DeviceModel {
 public:
  /// Opens the device that `options`, which are resolved, name, and copies the weights there if it has memory
  /// of its own; routed experts that do not fit stay with the host. Config and weights outlive this; of
  /// weights that are copied (`copied_weights`), only what later changes or comes from the host does.
  /// Throws `Error` when the device cannot be used or has too little memory.
  DeviceModel(ModelShare share, const EngineOptions& options);
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  [[nodiscard]] const RankConfig& rank() const { return share_.rank; }
  [[nodiscard]] const ModelConfig& config() const { return share_.rank.model(); }
  [[nodiscard]] const RankLayout& layout() const { return share_.layout; }
  /// What is reserved, with experts where they are.
  [[nodiscard]] const MemoryPlan& plan() const { return share_.plan; }
  [[nodiscard]] Device& device() const { return *device_; }
  /// As the device reads them: the copy, or the host's.
  [[nodiscard]] const WeightTree& weights() const { return copy_ ? copy_->tree() : share_.weights; }
  /// Null where the device reads the host's memory.
  [[nodiscard]] DeviceWeights* copied_weights() const { return copy_.get(); }
  /// Null where all experts lie in one memory.
  [[nodiscard]] ExpertStore* experts() const { return experts_.get(); }
  /// Null where no layer has a table of n-grams.
  [[nodiscard]] EngramStore* engram() const { return engram_.get(); }
  /// In which order routed experts are added up.
  [[nodiscard]] ExpertSums expert_sums() const { return expert_sums_; }
  /// Empty there.
  [[nodiscard]] std::optional<ExpertPlaceStats> expert_places() const;
  /// Throws `LostDevice` when what was computed may lack bytes of the checkpoint.
  void check_reads() const;

 private:
  [[nodiscard]] std::unique_ptr<Device> open_device(const EngineOptions& options);
  /// The plan's, on `device`. A sentence where there is no room.
  [[nodiscard]] std::optional<Failure> place_tables(const Device& device, const EngineOptions& options);
  /// Decides whether the host computes experts, and says so.
  void settle_host_experts(const EngineOptions& options);

  ModelShare share_;
  std::vector<TokenId> compressed_ids_;  ///< tokens' ids by which n-grams are hashed; empty: none are
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceWeights> copy_;
  std::unique_ptr<ExpertStore> experts_;
  std::unique_ptr<EngramStore> engram_;
  ExpertSums expert_sums_ = ExpertSums::kFree;
};

}  // namespace baleen
