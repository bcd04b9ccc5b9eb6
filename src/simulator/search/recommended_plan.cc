#include "simulator/search/recommended_plan.h"

#include <fmt/format.h>

#include <map>

#include "simulator/search/plan_search.h"

namespace baleen {
namespace {

double reply_tokens_per_second(const DeploymentEstimate& estimate, const ServingLoad& load) {
  return estimate.requests_per_second * static_cast<double>(load.reply_tokens);
}

bool better(const DeploymentEstimate& a, const DeploymentEstimate& b, const PlanRequest& request) {
  if (request.goal == PlanGoal::kOneConversation) return a.tpot_seconds < b.tpot_seconds;
  return reply_tokens_per_second(a, request.load) > reply_tokens_per_second(b, request.load);
}

/// "6.1 ms a token"
std::string figure_text(const DeploymentEstimate& estimate, const PlanRequest& request) {
  if (request.goal == PlanGoal::kOneConversation)
    return fmt::format("{:.2f} ms a token", 1e3 * estimate.tpot_seconds);
  return fmt::format("{:.0f} tokens/s with {} sequences", reply_tokens_per_second(estimate, request.load),
                     request.load.concurrency);
}

}  // namespace

std::optional<RecommendedPlan> recommended_plan(const SimulatedModel& model, const DeviceProfile& device,
                                                const PlanRequest& request) {
  std::optional<RecommendedPlan> best;
  std::optional<DeploymentEstimate> alone;
  for (std::int64_t count = 1; count <= request.num_devices; ++count) {
    std::map<std::string, std::int64_t> illegal;
    for (const ParallelPlan& plan : legal_plans(model.config, count, illegal)) {
      if (!request.can_run(plan)) continue;
      const DeploymentEstimate estimate = estimate_deployment(PlanRanks(model, plan), request.load, device);
      if (!estimate.fits()) continue;
      if (plan.is_one_rank()) alone = estimate;
      if (!best || better(estimate, best->estimate, request)) best = {plan, estimate, ""};
    }
  }
  if (!best) return best;
  best->reason = fmt::format("an estimated {}", figure_text(best->estimate, request));
  if (best->plan.is_one_rank()) return best;
  best->reason += alone ? fmt::format(", {} on one device", figure_text(*alone, request))
                        : ", and one device has not enough memory";
  return best;
}

}  // namespace baleen
