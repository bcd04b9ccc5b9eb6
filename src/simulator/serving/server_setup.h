/// An engine to simulate: its cache, what a step may hold, and how long one takes.
#pragma once

#include <memory>

#include "engine/engine_options.h"
#include "engine/step_engine.h"
#include "kv_cache/kv_cache.h"
#include "scheduler/scheduler_options.h"
#include "simulator/serving/step_features.h"
#include "simulator/serving/step_times.h"

namespace baleen {

struct ServerSetup {
  CacheGeometry geometry;
  CacheCapacity capacity;
  std::int64_t reserved_tails = 0;  ///< see RadixTreeOptions
  EngineLimits limits;              ///< the vocabulary does not matter
  SchedulerOptions scheduler;
  std::int64_t bounded_replay_tokens = 0;  ///< as in EngineOptions
  AttentionReach reach;
  std::shared_ptr<StepTimes> times;
};

/// What Engine would be with these options, which need not be resolved. Throws `Error` as `resolved` does.
[[nodiscard]] ServerSetup server_setup(const ModelConfig& config, const EngineOptions& options,
                                       const SchedulerOptions& scheduler, std::shared_ptr<StepTimes> times);

/// Throws `Error` for a setup with which no request could run.
void check(const ServerSetup& setup);

}  // namespace baleen
