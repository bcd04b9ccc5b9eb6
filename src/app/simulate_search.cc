#include "app/commands.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/engine_flags.h"
#include "app/option_names.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/provenance.h"
#include "app/report_file.h"
#include "app/simulation_flags.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/standard_streams.h"
#include "plots/figure_text.h"
#include "simulator/report/search_report.h"
#include "simulator/search/plan_search.h"

namespace baleen {
namespace {

struct SearchFlags {
  DeviceFlags device;
  SearchOptions options;
  double ttft_ms = 0;
  double tpot_ms = 0;
  std::int64_t top = 10;
  std::string html;
  bool json = false;
};

void print_candidates(const std::vector<DeploymentCandidate>& candidates, std::size_t most) {
  fmt::print("{:>12}{:>11}{:>12}{:>12}{:>8}{:>8}{:>9}  {}\n", "tokens/s/dev", "tok/s/user", "first token",
             "a token", "batch", "drafts", "GB", "plan");
  for (std::size_t i = 0; i < std::min(most, candidates.size()); ++i) {
    const DeploymentCandidate& c = candidates[i];
    fmt::print("{:>12.1f}{:>11.1f}{:>12}{:>12}{:>8}{:>8}{:>9.1f}  {}\n", c.tokens_per_second_per_device,
               c.tokens_per_second_per_user, seconds_text(c.ttft_seconds), seconds_text(c.tpot_seconds),
               c.concurrency, c.num_drafts, 1e-9 * static_cast<double>(c.memory_bytes), to_text(c));
  }
}

nlohmann::ordered_json to_json(const DeploymentCandidate& c) {
  nlohmann::ordered_json json{{"plan", to_text(c.plan)},
                              {"instances", c.num_instances},
                              {"concurrency", c.concurrency},
                              {"num_mtp_tokens", c.num_drafts},
                              {"ttft_seconds", c.ttft_seconds},
                              {"tpot_seconds", c.tpot_seconds},
                              {"tokens_per_second_per_device", c.tokens_per_second_per_device},
                              {"tokens_per_second_per_user", c.tokens_per_second_per_user},
                              {"memory_bytes", c.memory_bytes}};
  if (c.prefill_plan) {
    json["prefill_plan"] = to_text(*c.prefill_plan);
    json["prefill_instances"] = c.num_prefill_instances;
  }
  return json;
}

void print_result(const SearchFlags& flags, const SimulatedModel& model, const DeviceProfile& device,
                  const SearchResult& result, double seconds) {
  fmt::print("{} on {} x {}: {}; {} deployments in {:.1f} s\n\n", model.name, flags.options.num_devices,
             device.description, to_text(flags.options.load), result.num_evaluated, seconds);
  if (result.ranked.empty()) {
    fmt::print("nothing is within these limits\n");
  } else {
    print_candidates(result.ranked, static_cast<std::size_t>(flags.top));
    fmt::print("\nPareto front: none is better both for a device and for a user\n");
    print_candidates(result.pareto, result.pareto.size());
  }
  fmt::print("\nleft out:\n");
  for (const auto& [reason, count] : result.excluded) fmt::print("{:>6}  {}\n", count, reason);
}

/// Reasons that several rules have in common stay one.
void name_options(std::map<std::string, std::int64_t>& excluded) {
  std::map<std::string, std::int64_t> named;
  for (const auto& [reason, count] : excluded) named[in_options(reason)] += count;
  excluded = std::move(named);
}

void run_search(SearchFlags flags) {
  const SimulatedModel model = flags.device.load_model();
  const DeviceProfile device = flags.device.load_device();
  flags.options.ttft_limit_seconds = kSecondsPerMillisecond * flags.ttft_ms;
  flags.options.tpot_limit_seconds = kSecondsPerMillisecond * flags.tpot_ms;
  ThreadPool pool(default_num_threads());
  const auto start = std::chrono::steady_clock::now();
  std::optional<Progress> progress;
  flags.options.on_plan = [&](std::int64_t done, std::int64_t total) {
    if (!progress) progress.emplace("searching", "plans", total);
    progress->update(done);
  };
  SearchResult result = search_plans(model, device, flags.options, pool);
  progress.reset();
  name_options(result.excluded);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto most = static_cast<std::size_t>(flags.top);
  if (!flags.html.empty())
    write_report_file(flags.html,
                      search_html({model, device, flags.options, result}, flags.top, provenance()),
                      "a browser");
  if (flags.json) {
    nlohmann::ordered_json json{{"model", model.name},
                                {"device", device.name},
                                {"bounded_replay", flags.options.load.bounded_replay},
                                {"evaluated", result.num_evaluated},
                                {"ranked", nlohmann::ordered_json::array()},
                                {"pareto", nlohmann::ordered_json::array()},
                                {"excluded", result.excluded}};
    for (std::size_t i = 0; i < std::min(most, result.ranked.size()); ++i)
      json["ranked"].push_back(to_json(result.ranked[i]));
    for (const DeploymentCandidate& candidate : result.pareto) json["pareto"].push_back(to_json(candidate));
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print_result(flags, model, device, result, seconds);
  }
  if (result.ranked.empty()) {
    flush_checked(stdout);
    fail("no plan of {} devices is within these limits; what was left out, and why, is above",
         flags.options.num_devices);
  }
}

}  // namespace

void add_simulate_search_command(Options& command) {
  auto flags = std::make_shared<SearchFlags>();
  flags->device.add_to(command);
  SearchOptions& options = flags->options;
  command.integer("--num-devices", options.num_devices, {1, 4096}, "Devices in all");
  command.integer("--isl", options.load.prompt_tokens, kTokensAtLeastOneRange, "Tokens of a prompt");
  command.integer("--osl", options.load.reply_tokens, kTokensAtLeastOneRange, "Tokens of a reply");
  command.real("--ttft", flags->ttft_ms, kMillisecondsRange, "Limit for the first token, ms; 0: none");
  command.real("--tpot", flags->tpot_ms, kMillisecondsRange, "Limit for each token after it, ms; 0: none");
  command.integer("--max-concurrency", options.max_concurrency, {1, 1 << 20},
                  "Requests at a time of one instance");
  command.integer_without_default("--max-instance", options.max_instance, {1, 4096},
                                  "Devices of one instance, at most; otherwise all");
  command.integer("--max-mtp-tokens", options.max_drafts, kDraftsRange, "Drafts a step, at most");
  command.reals("--mtp-acceptance", options.load.draft_acceptance, kShareRange,
                "Share of first, second, ... drafts that are accepted; default 0.9,0.6,0.4,0.2");
  command.integer("--max-batch-tokens", options.load.max_batch_tokens, kStepTokensRange,
                  "Tokens of a step of prefill");
  add_bounded_replay_option(command, options.load.bounded_replay);
  command.flag("--disaggregate", options.disaggregate, "Also prefill and decoding on devices of their own");
  command.integer("--top", flags->top, {1, 1 << 20}, "Rows to show");
  command.path("--html", flags->html, "Write a page with plots and tables, for a browser");
  command.flag("--json", flags->json, "One JSON line");
  command.action([flags] { run_search(*flags); });
}

}  // namespace baleen
