#include "app/commands.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/option_ranges.h"
#include "app/options.h"
#include "app/provenance.h"
#include "app/report_file.h"
#include "app/simulation_flags.h"
#include "base/error.h"
#include "base/standard_streams.h"
#include "log/log.h"
#include "simulator/report/step_report.h"
#include "simulator/search/nearest_fit.h"

namespace baleen {
namespace {

struct SimulateFlags {
  DeploymentFlags deployment;
  Workload workload;
  std::optional<double> tokens_a_step;
  std::vector<double> published_acceptance;
  std::string performance = "measured";
  std::string trace;
  std::string html;
  bool by_shape = false;
  bool json = false;
  bool list_devices = false;
  std::vector<std::string> ignored;  ///< names of options that were given and mean nothing here
};

void run_simulate(SimulateFlags flags) {
  if (flags.list_devices) {
    for (const DeviceProfile& profile : device_profiles())
      fmt::print("{:<28}{}\n", profile.name, listed_text(profile));
    return;
  }
  for (const std::string& name : flags.ignored)
    log_line("{}: ignored; formats come from the checkpoint, and kernels are what they are", name);
  const SimulatedModel model = flags.deployment.load_model();
  const DeviceProfile device = flags.deployment.load_device();
  if (!flags.published_acceptance.empty())
    flags.workload.draft_acceptance = acceptance_of_published(flags.published_acceptance);
  if (flags.tokens_a_step)
    flags.workload.draft_acceptance = {acceptance_for(*flags.tokens_a_step, flags.workload.num_drafts)};
  validate(flags.workload, model.config);
  const ParallelPlan plan = flags.deployment.legal_plan(model.config, device);
  const PerformanceModel performance =
      flags.performance == "analytic" ? PerformanceModel::kAnalytic : PerformanceModel::kMeasured;
  const StepEstimate estimate = estimate_step({model, plan}, flags.workload, device, performance);
  StepReport report{model, plan, flags.workload, device, estimate, performance, {}};
  if (!estimate.fits())
    report.advice = to_text(nearest_fit(model, plan, flags.workload, device, estimate), flags.workload);
  if (!flags.trace.empty())
    write_report_file(flags.trace, chrome_trace(report), "chrome://tracing or a viewer like it");
  if (!flags.html.empty()) write_report_file(flags.html, step_html(report, provenance()), "a browser");
  if (flags.json) {
    fmt::print("{}\n", step_json(report));
  } else {
    fmt::print("{}", step_table(report, flags.by_shape ? TableRows::kByShape : TableRows::kByOperation));
  }
  if (!estimate.fits()) {
    flush_checked(stdout);
    fail("{}", report.advice);
  }
}

}  // namespace

void add_simulate_command(Options& command) {
  auto flags = std::make_shared<SimulateFlags>();
  flags->deployment.add_to(command);
  Workload& work = flags->workload;
  command.integer("--num-queries", work.num_queries, {1, 1 << 20}, "Queries of a step, over all devices");
  command.integer("--query-length", work.query_length, kTokensAtLeastOneRange, "New tokens of each query");
  command.integer("--context-length", work.context_length, kPositionsRange,
                  "Positions of each query that are cached before");
  command.flag("--decode", work.decode, "A step of decoding: one new token a query, and its drafts");
  command.integer("--num-mtp-tokens", work.num_drafts, kDraftsRange,
                  "Tokens drafted for each step of decoding");
  const Option acceptance =
      command.reals("--mtp-acceptance", work.draft_acceptance, kShareRange,
                    "Share of first, second, ... drafts that are accepted; default 0.9,0.6,0.4,0.2");
  add_tokens_a_step_option(command, flags->tokens_a_step).excludes(acceptance);
  add_published_acceptance_option(command, flags->published_acceptance).excludes(acceptance);
  command.real("--prefix-cache-hit-rate", work.prefix_cache_hit_rate, kShareRange,
               "Share of a prompt's tokens that is cached, less than 1");
  command.integer("--bounded-replay", work.bounded_replay, kTokensRange,
                  "Last tokens of a prompt that the decoder half of a model that has one is computed on, as "
                  "128; 0: all");
  command.real("--imbalance", work.imbalance, kImbalanceRange,
               "Tokens of the rank that gets most over the mean");
  command.real("--hash-imbalance", work.hash_imbalance, kImbalanceRange,
               "The same in layers routed by token id");
  command.real("--zipf", work.zipf, {.min = 0, .max = 10},
               "Tokens choose the expert of rank r with a probability of 1/r^X, and those on the host are "
               "the least used; "
               "0: evenly");
  command.real(
      "--guessed-experts", work.guessed_experts, kShareRange,
      "Of the experts on the host that tokens choose, the share that a guess fetches a layer ahead; 1: "
      "certain ones, as of tables of token ids");
  command.choice(
      "--performance-model", flags->performance, {"measured", "analytic"},
      "measured: shares of the peaks from the device's tables; analytic: the same for all operations");
  command.path("--trace,--chrome-trace", flags->trace, "Write a time line for chrome://tracing");
  command.path("--html", flags->html, "Write a page with plots and tables, for a browser");
  command.flag("--dump-input-shapes", flags->by_shape, "A row of the table for each shape");
  command.flag("--json", flags->json, "One JSON line instead of tables");
  command.flag("--list-devices", flags->list_devices, "Known devices, and nothing else");
  for (const char* name :
       {"--compile", "--quantize-linear-action", "--quantize-attention-action", "--quantize-lmhead"})
    command.ignored(name, flags->ignored);
  command.action([flags] { run_simulate(*flags); });
}

}  // namespace baleen
