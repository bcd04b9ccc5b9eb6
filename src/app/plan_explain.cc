#include "app/plan_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "app/machine_plan.h"
#include "app/option_names.h"
#include "base/error.h"
#include "benchmark/expert_listing.h"
#include "device/profiled_device.h"
#include "parallel/thread_pool.h"
#include "plots/figure_text.h"
#include "simulator/search/plan_search.h"

namespace baleen {
namespace {

/// Devices that one server is explained on; more are more servers.
constexpr std::int64_t kLargestServer = 64;

/// Of each plan that `can_run` its best way to be used, the best plan first.
template <class CanRun>
std::vector<DeploymentCandidate> best_of_each_plan(const SearchResult& result, const CanRun& runs) {
  std::vector<DeploymentCandidate> best;
  for (const DeploymentCandidate& candidate : result.ranked) {
    if (runs(candidate) && std::ranges::find(best, candidate.plan, &DeploymentCandidate::plan) == best.end())
      best.push_back(candidate);
  }
  return best;
}

/// The plan in the words of a command line.
std::string options_text(const ParallelPlan& plan) {
  std::string text = fmt::format("--tp {} --dp {} --ep {} --pp {} --o-proj-tp {}", plan.tp, plan.dp, plan.ep,
                                 plan.pp, plan.o_proj_tp);
  if (!plan.stage_layers.empty())
    text += fmt::format(" --stage-layers {}", fmt::join(plan.stage_layers, ","));
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

void explain_plans(const SimulatedModel& model, const DeviceProfile& device, std::int64_t num_devices,
                   std::int64_t bounded_replay) {
  SearchOptions options;
  options.num_devices = num_devices;
  options.max_instance = kLargestServer;
  options.load.bounded_replay = bounded_replay;
  ThreadPool pool(default_num_threads());
  const SearchResult result = search_plans(model, device, options, pool);
  const DeviceChoice like = device_like(device);
  const auto runs = [&](const DeploymentCandidate& candidate) {
    return can_be_recommended(candidate.plan, model.config, like);
  };
  const std::vector<DeploymentCandidate> plans = best_of_each_plan(result, runs);
  fmt::print("{} on {} x {}: {}\n", model.name, num_devices, device.description, to_text(options.load));
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
    const std::int64_t step_rows = (best.concurrency + best.plan.dp - 1) / best.plan.dp;
    fmt::print("\nexperts of the recommended plan, decoding {} sequences in each group:\n{}", step_rows,
               expert_table(expert_candidates({.config = model.config,
                                               .weights = model.formats.experts,
                                               .plan = best.plan,
                                               .device = traits_like(device),
                                               .step_rows = step_rows})));
  }
  fmt::print("\nleft out:\n");
  if (num_devices > kLargestServer)
    fmt::print("        plans of one server on more than {} devices\n", kLargestServer);
  const auto num_not_run = std::ranges::count_if(result.ranked, std::not_fn(runs));
  if (num_not_run > 0) fmt::print("{:>6}  ranks cannot run the plan so far\n", num_not_run);
  for (const auto& [why, count] : result.excluded) fmt::print("{:>6}  {}\n", count, in_options(why));
  if (plans.empty()) fail("no plan of {} devices fits; what was left out, and why, is above", num_devices);
}

}  // namespace baleen
