#include "app/plan_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "parallel/thread_pool.h"
#include "simulator/report/figure_text.h"
#include "simulator/search/plan_search.h"

namespace baleen {
namespace {

/// The simulator can think of more than ranks can run so far (docs/ranks.md); GPUs do not share out rows.
bool can_run(const ParallelPlan& plan, const DeviceProfile& device) {
  if (plan.shares_rows() && !device.is_cpu) return false;
  return !plan.dual_batch_overlap && plan.o_proj_tp <= plan.tp && plan.lmhead_tp <= plan.group_ranks();
}

/// Of each plan that can be run its best way to be used, the best plan first.
std::vector<DeploymentCandidate> best_of_each_plan(const SearchResult& result, const DeviceProfile& device) {
  std::vector<DeploymentCandidate> best;
  for (const DeploymentCandidate& candidate : result.ranked) {
    if (can_run(candidate.plan, device) &&
        std::ranges::find(best, candidate.plan, &DeploymentCandidate::plan) == best.end())
      best.push_back(candidate);
  }
  return best;
}

/// The plan in the words of a command line.
std::string options_text(const ParallelPlan& plan) {
  std::string text = fmt::format("--tp {} --dp {} --ep {} --pp {} --o-proj-tp {}", plan.tp, plan.dp, plan.ep,
                                 plan.pp, plan.o_proj_tp);
  if (plan.cp > 1) text += fmt::format(" --cp {}", plan.cp);
  if (plan.moe_tp > 1) text += fmt::format(" --moe-tp {}", plan.moe_tp);
  if (plan.redundant_experts > 0) text += fmt::format(" --redundant-experts {}", plan.redundant_experts);
  if (plan.sequence_parallel) text += " --sequence-parallel";
  return text;
}

std::string reason(const DeploymentCandidate& candidate, const DeploymentCandidate& best) {
  if (&candidate == &best) return "recommended: the most reply tokens a second";
  const double share = candidate.tokens_per_second_per_device / best.tokens_per_second_per_device;
  const bool quicker = candidate.tpot_seconds < best.tpot_seconds;
  return fmt::format("{:.0f}% of the best{}", 100 * share, quicker ? ", but each token sooner" : "");
}

}  // namespace

void explain_plans(const SimulatedModel& model, const DeviceProfile& device, std::int64_t num_devices) {
  SearchOptions options;
  options.num_devices = num_devices;
  ThreadPool pool(default_num_threads());
  const SearchResult result = search_plans(model, device, options, pool);
  const std::vector<DeploymentCandidate> plans = best_of_each_plan(result, device);
  fmt::print("{} on {} x {}: prompts of {} tokens, replies of {}\n", model.name, num_devices,
             device.description, options.load.prompt_tokens, options.load.reply_tokens);
  if (!plans.empty()) {
    const DeploymentCandidate& best = plans.front();
    if (best.num_instances > 1) {
      fmt::print("recommended: {} servers, each with {}\n\n", best.num_instances, options_text(best.plan));
    } else {
      fmt::print("recommended: {}\n\n", options_text(best.plan));
    }
    fmt::print("{:>12}{:>12}{:>12}{:>8}{:>9}  plan, and why\n", "tokens/s/dev", "first token", "a token",
               "batch", "GB");
    for (const DeploymentCandidate& plan : plans) {
      fmt::print("{:>12.1f}{:>12}{:>12}{:>8}{:>9.1f}  {}: {}\n", plan.tokens_per_second_per_device,
                 seconds_text(plan.ttft_seconds), seconds_text(plan.tpot_seconds), plan.concurrency,
                 1e-9 * static_cast<double>(plan.memory_bytes), to_text(plan.plan), reason(plan, best));
    }
  }
  fmt::print("\nleft out:\n");
  const auto num_not_run = std::ranges::count_if(
      result.ranked, [&](const DeploymentCandidate& candidate) { return !can_run(candidate.plan, device); });
  if (num_not_run > 0) fmt::print("{:>6}  ranks cannot run the plan so far\n", num_not_run);
  for (const auto& [why, count] : result.excluded) fmt::print("{:>6}  {}\n", count, why);
  if (plans.empty()) fail("no plan of {} devices fits; what was left out, and why, is above", num_devices);
}

}  // namespace baleen
