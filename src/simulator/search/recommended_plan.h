/// The plan for the devices of a machine when the user names none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "simulator/cost/deployment_estimate.h"

namespace baleen {

/// What a plan is chosen for.
enum class PlanGoal : std::uint8_t {
  kOneConversation,  ///< the shortest time from token to token of a single sequence
  kManyReplies,      ///< the most reply tokens a second of all sequences together
};

struct PlanRequest {
  std::int64_t num_devices = 1;  ///< devices of one kind; a plan may leave some of them idle
  PlanGoal goal = PlanGoal::kOneConversation;
  ServingLoad load;  ///< concurrency: sequences at a time; one for kOneConversation
  /// Plans that the ranks can execute; others are not considered.
  std::function<bool(const ParallelPlan&)> can_run;
};

struct RecommendedPlan {
  ParallelPlan plan;  ///< resolved
  DeploymentEstimate estimate;
  std::string reason;  ///< a clause: the estimate, and that of one device where the plan has several
};

/// Estimates every legal plan of 1 to `num_devices` devices at the load; the best by the goal, of equals the
/// one with fewer devices. None where no plan's memory suffices. Some milliseconds a plan.
[[nodiscard]] std::optional<RecommendedPlan> recommended_plan(const SimulatedModel& model,
                                                              const DeviceProfile& device,
                                                              const PlanRequest& request);

}  // namespace baleen
