/// A deployment in its steady state: so many requests at a time, each a prompt and a reply.
/// (source: simulation 9, 11)
///
/// While one request is decoded, all others are prefilled once: prompts go in between steps of decoding, and
/// every token waits for its share of them.
///
///     time per token = step / tokens a step + (requests - 1) prefill / reply length
///     cycle          = prefill + reply length x time per token;    requests/s = requests at a time / cycle
///
/// Data-parallel groups share their experts, so a step of one is a step of all. Requests end, and prompts
/// begin, when they will: a prompt in one group finds the others without one, and they wait for it. Only
/// instances that do nothing but prefill have prompts for all groups at once.
///
/// The serving simulation (simulator/serving) has the real scheduler instead; this is what a search can
/// afford.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/cost/step_estimate.h"

namespace baleen {

/// What clients ask for.
struct ServingLoad {
  std::int64_t prompt_tokens = 8192;
  std::int64_t reply_tokens = 1024;
  std::int64_t concurrency = 1;  ///< requests at a time, over all devices
  /// How many an engine lets run, the others wait; 0: as many as memory holds.
  std::int64_t max_running = 0;
  std::int64_t num_drafts = 0;
  std::vector<double> draft_acceptance;  ///< as in `Workload`
  std::int64_t max_batch_tokens = 8192;  ///< limit of a step of prefill in one data-parallel group
  double prefix_cache_hit_rate = 0;
  std::int64_t bounded_replay = 0;  ///< as in `Workload`
  double imbalance = 1;
  double hash_imbalance = 1;
};

/// "prompts of 8192 tokens, replies of 1024"
[[nodiscard]] std::string to_text(const ServingLoad& load);

struct DeploymentEstimate {
  double prefill_seconds = 0;      ///< what a prompt takes by itself
  double step_seconds = 0;         ///< what a step of decoding takes
  double ttft_seconds = 0;         ///< mean, waiting for prompts before and for room included
  double tpot_seconds = 0;         ///< mean
  double requests_per_second = 0;  ///< what all devices answer together
  double requests_in_flight =
      0;  ///< requests that decode at a time: less than the concurrency where memory is short
  std::int64_t memory_bytes = 0;  ///< what the fullest device holds
  std::int64_t device_memory_bytes = 0;

  [[nodiscard]] bool fits() const { return memory_bytes <= device_memory_bytes; }
};

/// Which data-parallel groups have a prompt when one has.
enum class PrefillGroups : std::uint8_t { kOne, kAll };

/// Time to process a prompt, or one for each group, in chunks of at most max_batch_tokens.
[[nodiscard]] double prefill_seconds(const PlanRanks& ranks, const ServingLoad& load,
                                     const DeviceProfile& device, PrefillGroups groups);

/// Tokens that a step of decoding yields for each request on average.
[[nodiscard]] double tokens_per_step(const ServingLoad& load);

/// Of the fullest device with all requests at their longest, and room for a step of prefill beside them.
[[nodiscard]] std::int64_t deployment_memory_bytes(const PlanRanks& ranks, const ServingLoad& load,
                                                   const DeviceProfile& device);

/// A step of decoding in the middle of replies.
[[nodiscard]] StepEstimate decode_step(const PlanRanks& ranks, const ServingLoad& load,
                                       const DeviceProfile& device);

/// Where not all requests fit into memory, as many as do run and the others wait; `fits` is false
/// when not even one for each group does.
[[nodiscard]] DeploymentEstimate estimate_deployment(const PlanRanks& ranks, const ServingLoad& load,
                                                     const DeviceProfile& device);

/// The same of times that are known.
[[nodiscard]] DeploymentEstimate steady_state(const ServingLoad& load, double prefill_seconds,
                                              const StepEstimate& step);

}  // namespace baleen
