/// One data-parallel group of a deployment as a server to simulate: its share of the model on each rank, the
/// cache that fits beside, and its step times.
#pragma once

#include <memory>
#include <vector>

#include "simulator/cost/step_estimate.h"
#include "simulator/serving/server_setup.h"

namespace baleen {

/// Consecutive stages of a resolved and legal plan, with as many layers each as can be.
[[nodiscard]] std::vector<std::unique_ptr<RankModel>> stage_models(const SimulatedModel& model,
                                                                   const ParallelPlan& plan);

/// Positions that the page pool can have on every rank beside all else, for an engine with these options but
/// for `cache_tokens`. Throws `Error`, with the bytes that are missing, when it cannot have one page for each
/// sequence.
[[nodiscard]] std::int64_t most_cache_tokens(const SimulatedModel& model, const ParallelPlan& plan,
                                             const DeviceProfile& device, EngineOptions options);

struct DeployedServerOptions {
  /// `cache_tokens` 0: all that fits. The device does not matter.
  EngineOptions engine;
  SchedulerOptions scheduler;
  double imbalance = 1, hash_imbalance = 1;  ///< as in Workload
};

/// `plan` resolved and legal. Throws `Error` for options that cannot be, and for more cache than fits.
[[nodiscard]] ServerSetup deployed_server(const SimulatedModel& model, const ParallelPlan& plan,
                                          const DeviceProfile& device, const DeployedServerOptions& options);

}  // namespace baleen
