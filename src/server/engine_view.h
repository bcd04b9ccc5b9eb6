/// What the page and the metrics show of the engine, copied out between two steps.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "disk_tier/disk_tier.h"
#include "engine/step_engine.h"
#include "engine/transfer_stats.h"
#include "moe/placement/expert_balancer.h"
#include "moe/placement/expert_maps.h"
#include "moe/residence/expert_store.h"
#include "scheduler/recent_prefixes.h"

namespace baleen {

struct OperationTime {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double bytes = 0;
  double flops = 0;
};

struct EngineView {
  std::vector<RadixNodeSummary> tree;
  std::vector<RecentPrefix> prefixes;                  ///< what was found of recent requests, the newest last
  std::vector<std::vector<std::int64_t>> expert_load;  ///< routed tokens by block and expert
  std::optional<ExpertBalance> expert_balance;         ///< where experts change places while ranks serve
  std::optional<ExpertPlaceStats> expert_places;       ///< where experts lie in several memories
  ExpertTable expert_table;                            ///< empty where all layers have the plan's placement
  std::vector<OperationTime> operations;               ///< empty unless profiling is on
  std::optional<DiskTierStats> disk;
  std::int64_t disk_budget_bytes = 0;
  std::int64_t num_ranks = 1;
  std::int64_t num_groups = 1;             ///< data-parallel ones, each with sequences and a cache of its own
  std::int64_t num_prefill_groups = 0;     ///< how many of those only compute prompts
  std::optional<TransferStats> transfers;  ///< between them and the others; empty without them
  std::string plan;                        ///< "2 devices: tp 1, dp 2, ep 2"
};

/// Called in the scheduler's thread.
using EngineProbe = std::function<EngineView()>;

}  // namespace baleen
