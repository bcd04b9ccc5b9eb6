/// An engine with its model, as commands see it: one rank (`Engine`) or several (`RankEngine`).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "disk_tier/disk_tier.h"
#include "engine/engine_options.h"
#include "engine/memory_plan.h"
#include "engine/step_engine.h"
#include "engine/transfer_stats.h"
#include "model/config.h"
#include "moe/placement/expert_balancer.h"
#include "moe/residence/expert_store.h"
#include "ops/dispatch/expert_map.h"

namespace baleen {

class ModelEngine : public StepEngine {
 public:
  /// Of the whole model.
  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  /// Resolved.
  [[nodiscard]] virtual const EngineOptions& options() const = 0;
  /// Of one rank: the first.
  [[nodiscard]] virtual const MemoryPlan& plan() const = 0;
  /// What all ranks take, for people, in lines.
  [[nodiscard]] virtual std::string memory_text() const = 0;
  /// Of the first rank. Also keeps the profile of operations, if that is wanted.
  [[nodiscard]] virtual Device& device() = 0;
  /// How many tokens each block sent to each routed expert since the start, rows of [blocks, E]; drafts count
  /// too.
  [[nodiscard]] virtual std::vector<std::vector<std::int64_t>> expert_load() = 0;
  /// Null where experts do not move while the ranks serve.
  [[nodiscard]] virtual const ExpertBalance* expert_balance() const { return nullptr; }
  /// Of each block; empty where all layers have the plan's placement.
  [[nodiscard]] virtual std::span<const ExpertMap> expert_maps() const { return {}; }
  /// Empty where all experts lie in one memory. Waits for the steps that are under way.
  [[nodiscard]] virtual std::optional<ExpertPlaceStats> expert_places() const { return std::nullopt; }
  /// Empty where no groups of ranks compute prompts for others.
  [[nodiscard]] virtual std::optional<TransferStats> transfer_stats() const { return std::nullopt; }
  /// Empty without a disk tier.
  [[nodiscard]] virtual std::optional<DiskTierStats> disk_stats() const = 0;
  /// For benchmarks: makes an empty sequence look as if it had seen `num_positions` tokens, with random cache
  /// rows; not to be kept. Throws `Error` when the cache has no room for them.
  virtual void fabricate_history(SequenceId sequence, std::int64_t num_positions) = 0;
  /// Positions one sequence can have when it has the cache to itself.
  [[nodiscard]] std::int64_t context_tokens() const { return limits().context_tokens; }
};

}  // namespace baleen
