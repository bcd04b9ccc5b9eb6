/// All legal plans and batch sizes of a number of devices, ranked under limits of latency.
/// (source: simulation 9)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/thread_pool.h"
#include "simulator/cost/deployment_estimate.h"

namespace baleen {

struct SearchOptions {
  std::int64_t num_devices = 8;
  ServingLoad load;               ///< prompt, reply, acceptance; concurrency and drafts are searched
  double ttft_limit_seconds = 0;  ///< 0: none
  double tpot_limit_seconds = 0;
  std::int64_t max_concurrency = 4096;  ///< limit of one instance
  std::int64_t max_drafts = 3;
  std::int64_t max_instance = 0;  ///< devices of one instance at most; 0: all of them
  bool disaggregate = false;      ///< also prefill and decoding on instances of their own
  /// Called after each plan with how many are done, of how many; by one thread at a time.
  std::function<void(std::int64_t done, std::int64_t total)> on_plan;
};

/// One way to use the devices: as many instances as there is room for, each with this plan.
struct DeploymentCandidate {
  ParallelPlan plan;
  std::int64_t num_instances = 1;  ///< that decode, and prefill too unless `prefill_plan` says otherwise
  std::int64_t concurrency = 1;    ///< requests at a time in one instance
  std::int64_t num_drafts = 0;
  std::optional<ParallelPlan> prefill_plan;  ///< how instances that prefill alone are split
  std::int64_t num_prefill_instances = 0;
  double ttft_seconds = 0;
  double tpot_seconds = 0;
  double tokens_per_second_per_device = 0;  ///< tokens of replies
  double tokens_per_second_per_user = 0;
  std::int64_t memory_bytes = 0;
};

struct SearchResult {
  std::vector<DeploymentCandidate> ranked;  ///< within the limits, the most tokens/s a device first
  /// Plans than which no other is better both in tokens/s a device, by which they fall, and in tokens/s a
  /// user.
  std::vector<DeploymentCandidate> pareto;
  /// Why a plan, or a plan with a batch, is not among them, and how many.
  std::map<std::string, std::int64_t> excluded;
  std::int64_t num_evaluated = 0;
};

/// What one search looks at, minutes of work: plans times batches times drafts; with prefill apart, so many
/// pairs of two plans.
inline constexpr std::int64_t kMaxDeployments = 100'000;
inline constexpr std::int64_t kMaxPairs = 100'000'000;
/// A plan with a longer step is left out: no device is meant.
inline constexpr double kLongestStepSeconds = 1e9;

/// Throws `Error` for limits or loads that mean nothing, and for more deployments than `kMaxDeployments`,
/// before any of them is looked at.
[[nodiscard]] SearchResult search_plans(const SimulatedModel& model, const DeviceProfile& device,
                                        const SearchOptions& options, ThreadPool& pool);

/// Every legal plan of an instance of `num_devices`; those that break a rule are counted in `excluded`.
[[nodiscard]] std::vector<ParallelPlan> legal_plans(const ModelConfig& config, std::int64_t num_devices,
                                                    std::map<std::string, std::int64_t>& excluded);

}  // namespace baleen
