#include "app/commands.h"

#include <fmt/format.h>

#include <chrono>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "app/draft_flags.h"
#include "app/engine_flags.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/provenance.h"
#include "app/report_file.h"
#include "app/simulation_flags.h"
#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "simulator/report/serving_report.h"
#include "simulator/serving/cached_step_times.h"
#include "simulator/serving/deployed_server.h"
#include "simulator/serving/generated_requests.h"
#include "simulator/serving/serving_figures.h"
#include "simulator/serving/serving_simulation.h"
#include "simulator/serving/trace.h"

namespace baleen {
namespace {

constexpr int kMaxGridBits = 20;
constexpr RealRange kRateRange{.min = 1e-6, .max = 1e9};
/// What is kept of each is about 100 bytes.
constexpr WholeRange kSimulatedRequestsRange{1, 1 << 22};

struct ServeSimulationFlags {
  DeploymentFlags deployment;
  DeployedServerOptions server;
  bool no_prefix_cache = false;

  std::string arrival = "poisson";
  GeneratedRequestsOptions requests;
  std::string trace, lengths_from;
  double speed = 1;
  double patience_seconds = kForEver;

  std::vector<double> draft_acceptance{std::begin(kAssumedAcceptance), std::end(kAssumedAcceptance)};
  std::optional<double> tokens_a_step;
  std::vector<double> published_acceptance;
  DraftFlags drafts;
  std::string accepted_lengths;
  bool disaggregate = false;
  double link_gbps = 0, link_latency_us = 10;

  double ttft_ms = 0, tpot_ms = 0;
  StepGrid grid;
  std::string html;
  bool json = false;
};

void add_load_options(Options& command, ServeSimulationFlags& flags) {
  // Beyond these ends no time between requests is a number that means anything.
  constexpr RealRange kBurstinessRange{.min = 1e-3, .max = 1e3};
  constexpr RealRange kSpeedRange{.min = 1e-6, .max = 1e6};
  GeneratedRequestsOptions& requests = flags.requests;
  command.choice(
      "--arrival", flags.arrival, {"poisson", "gamma", "closed", "trace"},
      "poisson; gamma: in bursts; closed: each of --clients has one request under way; trace: as recorded");
  command.real_without_default("--rate", requests.rate, kRateRange,
                               "Requests (sessions, with --turns) a second, over all devices");
  command.real("--burstiness", requests.burstiness, kBurstinessRange,
               "Shape of gamma arrivals: 1 is poisson, less comes in bursts");
  command.integer("--clients,--concurrency", requests.clients, kSimulatedRequestsRange,
                  "Of a closed loop, over all devices");
  command.path(
      "--trace", flags.trace,
      "JSON lines or CSV: arrival, prompt_tokens, output_tokens, and session, family, family_tokens");
  command.real("--speed", flags.speed, kSpeedRange, "Play the trace so many times as fast");
  command.integer("--requests", requests.num_requests, kSimulatedRequestsRange,
                  "How many to simulate, over all devices");
  command.real("--isl", requests.prompt.mean, kMeanTokensRange, "Tokens of a prompt, in the mean");
  command.real("--isl-variation", requests.prompt.variation, kVariationRange,
               "Standard deviation of prompts over their mean (log-normal); 0: all equal");
  command.real("--osl", requests.output.mean, kMeanTokensRange, "Tokens of a reply, in the mean");
  command.real("--osl-variation", requests.output.variation, kVariationRange, "The same of replies");
  command.path("--lengths-from", flags.lengths_from, "Lengths of the requests of such a trace, in turn");
  command.integer("--shared-prefix", requests.family_tokens, kTokensRange,
                  "Tokens before the prompt that all requests of a family share");
  command.integer("--families", requests.families, kRequestsRange, "Of those, how many different ones");
  command.integer("--turns", requests.turns, kRequestsRange,
                  "Requests of a session; each has all before it in its prompt");
  command.real("--think", requests.think_seconds, kSecondsRange,
               "Seconds from a reply to the next request, in the mean");
  command.real("--patience", flags.patience_seconds, {.min = 0, .max = 1e9, .above_min = true},
               "Seconds after which clients leave who have no token yet");
  command.seed("--seed", requests.seed, "Of all that is random");
}

void add_engine_options(Options& command, ServeSimulationFlags& flags) {
  EngineOptions& engine = flags.server.engine;
  SchedulerOptions& scheduler = flags.server.scheduler;
  command.integer("--max-sequences", engine.max_sequences, kSequencesRange,
                  "Replies at a time of a data-parallel group");
  command.integer("--max-batch-tokens", engine.max_batch_tokens, kStepTokensRange,
                  "Tokens of one step of a group");
  add_bounded_replay_option(command, engine.bounded_replay_tokens);
  command.integer_without_default("--max-queue", scheduler.max_queue, kRequestsRange,
                                  "Requests that wait; more are turned away; default: all wait");
  command.integer("--prefill-share", scheduler.prefill_share_tokens, kTokensRange,
                  "Tokens of a step for prompts while others decode; 0: half of it");
  command.integer("--context", engine.cache_tokens, kPositionsRange,
                  "Tokens that the cache holds; 0: all that fit into memory");
  command.flag("--no-prefix-cache", flags.no_prefix_cache, "Compute every prompt from its first token");
  command.integer("--cached-window-pages", engine.cached_window_pages, kPagesRange,
                  "Window pages for cached prefixes; 0: as the engine thinks best");
  command.integer("--reserved-tails", engine.reserved_tails, kPagesRange,
                  "Ends of recent conversations whose window rows go last");
  command.integer("--num-mtp-tokens", engine.max_draft_tokens, kDraftsRange,
                  "Tokens drafted for each step of a reply");
  const Option acceptance =
      command.reals("--mtp-acceptance", flags.draft_acceptance, kShareRange,
                    "Share of first, second, ... drafts that are accepted; default 0.9,0.6,0.4,0.2");
  add_tokens_a_step_option(command, flags.tokens_a_step).excludes(acceptance);
  add_published_acceptance_option(command, flags.published_acceptance).excludes(acceptance);
  flags.drafts.add_schedule_to(command);
  command.path("--accepted-lengths", flags.accepted_lengths,
               "File of recorded numbers of accepted drafts, a step each; instead of shares");
  command.real("--imbalance", flags.server.imbalance, kImbalanceRange,
               "Tokens of the rank that gets most over the mean");
  command.real("--hash-imbalance", flags.server.hash_imbalance, kImbalanceRange,
               "The same in layers routed by token id");
  command.flag("--disaggregate", flags.disaggregate,
               "Prompts and replies on devices of their own: as many each, spread alike");
  command.real_without_default("--link-gbps", flags.link_gbps, {.min = 1e-3, .max = 1e6},
                               "Gigabits a second between them; otherwise the device's network");
  command.real("--link-latency-us", flags.link_latency_us, {.min = 0, .max = 1e9},
               "Microseconds of a transfer");
}

/// Refuses before it begins what the simulation would refuse after minutes.
void check_work(const GeneratedRequestsOptions& requests, std::int64_t num_drafts) {
  if (!requests.lengths.empty()) return;
  const double a_reply = std::min(requests.output.mean, static_cast<double>(requests.most_prompt_tokens));
  const double tokens = a_reply * static_cast<double>(requests.num_requests);
  const double most = static_cast<double>(kMaxServingWork) * static_cast<double>(1 + num_drafts);
  if (tokens <= most) return;
  fail(
      "--requests and --osl: {} requests of {:g} tokens on each data-parallel group are {:.3g} tokens; at "
      "most "
      "{:.3g} are simulated; give fewer --requests",
      grouped(requests.num_requests), a_reply, tokens, most);
}

std::unique_ptr<RequestSource> make_requests(const ServeSimulationFlags& flags, std::int64_t num_groups,
                                             std::int64_t context_tokens) {
  if (flags.arrival == "trace") {
    if (flags.trace.empty())
      usage_error("--arrival trace plays a recorded trace; name its file with --trace");
    std::vector<ServingRequest> all = load_trace(flags.trace), own;
    // A session stays with its group, whose cache knows it.
    for (const ServingRequest& request : all) {
      if (static_cast<std::int64_t>(request.stream.own) % num_groups != 0) continue;
      own.push_back(request);
      own.back().number = std::ssize(own) - 1;
    }
    return make_trace_requests(std::move(own), flags.speed);
  }
  GeneratedRequestsOptions requests = flags.requests;
  if (flags.arrival == "closed") {
    requests.rate = 0;
    requests.clients = std::max<std::int64_t>(1, requests.clients / num_groups);
  } else if (requests.rate == 0) {
    usage_error("--rate is missing: {} requests a second, over all devices", range_text(kRateRange));
  }
  if (flags.arrival == "poisson") requests.burstiness = 1;
  requests.most_prompt_tokens = context_tokens;
  if (!flags.lengths_from.empty()) {
    for (const ServingRequest& request : load_trace(flags.lengths_from)) {
      requests.lengths.push_back({request.prompt_tokens, request.output_tokens});
    }
  }
  check(requests);
  requests.rate /= static_cast<double>(num_groups);
  requests.num_requests = std::max<std::int64_t>(1, requests.num_requests / num_groups);
  check_work(requests, flags.server.engine.max_draft_tokens);
  return make_generated_requests(std::move(requests));
}

Acceptance acceptance_of(const ServeSimulationFlags& flags) {
  if (!flags.published_acceptance.empty()) {
    return Acceptance::of_chain(acceptance_of_published(flags.published_acceptance), flags.requests.seed);
  }
  if (flags.tokens_a_step) {
    const double share = acceptance_for(*flags.tokens_a_step, flags.server.engine.max_draft_tokens);
    return Acceptance::of_chain({share}, flags.requests.seed);
  }
  if (flags.accepted_lengths.empty())
    return Acceptance::of_chain(flags.draft_acceptance, flags.requests.seed);
  constexpr WholeRange kAccepted{0, 64};
  std::istringstream file(read_text_file(flags.accepted_lengths));
  std::vector<std::int64_t> lengths;
  for (std::string word; file >> word;) {
    const Result<std::int64_t> length = read_whole(word, kAccepted);
    if (!length) fail("{}: number {}: {}", flags.accepted_lengths, lengths.size() + 1, length.error());
    lengths.push_back(length.value());
  }
  return Acceptance::recorded(std::move(lengths), flags.requests.seed);
}

TransferLink link_of(const ServeSimulationFlags& flags, const DeviceProfile& device) {
  constexpr double kBytesPerGbit = 1e9 / 8;
  const LinkLevel& network = device.links.back();
  return {.bytes_per_second = flags.link_gbps > 0 ? flags.link_gbps * kBytesPerGbit
                                                  : network.bytes_per_second * network.efficiency,
          .latency_seconds = 1e-6 * flags.link_latency_us};
}

void run_serve_simulation(ServeSimulationFlags flags) {
  const SimulatedModel model = flags.deployment.load_model();
  const DeviceProfile device = flags.deployment.load_device();
  const ParallelPlan plan = flags.deployment.legal_plan(model.config, device);
  flags.server.engine.prefix_cache = !flags.no_prefix_cache;
  flags.server.scheduler.speculate = flags.server.engine.max_draft_tokens;
  flags.drafts.apply_to(flags.server.scheduler);
  ServingOptions options{.server = deployed_server(model, plan, device, flags.server),
                         .acceptance = acceptance_of(flags),
                         .patience_seconds = flags.patience_seconds};
  const auto times =
      std::make_shared<CachedStepTimes>(options.server.times, options.server.reach, flags.grid);
  options.server.times = times;
  if (flags.disaggregate) {
    options.decode = options.server;
    options.link = link_of(flags, device);
  }
  const auto requests = make_requests(flags, plan.dp, options.server.limits.context_tokens);
  Progress progress("simulating", "requests",
                    flags.arrival == "trace" ? 0 : flags.requests.num_requests / plan.dp);
  options.on_progress = [&](std::int64_t ended) { progress.update(ended); };
  const auto start = std::chrono::steady_clock::now();
  ServiceLimits limits;
  if (flags.ttft_ms > 0) limits.first_token_seconds = kSecondsPerMillisecond * flags.ttft_ms;
  if (flags.tpot_ms > 0) limits.per_output_token_seconds = kSecondsPerMillisecond * flags.tpot_ms;
  const ServingFigures figures = figures_of(simulate_serving(options, *requests), limits);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  const std::int64_t num_devices = plan.num_devices * (flags.disaggregate ? 2 : 1);
  const double tokens_per_device = figures.per_second(figures.prompt_tokens + figures.output_tokens) *
                                   static_cast<double>(plan.dp) / static_cast<double>(num_devices);
  const EngineLimits& engine = options.server.limits;
  const std::int64_t replay = options.server.bounded_replay_tokens;
  const std::string setup = fmt::format(
      "{} sequences and {} tokens a step; a cache of {} tokens in {} pages, {} window pages{}",
      engine.max_sequences, engine.max_batch_tokens, options.server.capacity.num_pages * kPageTokens,
      options.server.capacity.num_pages, options.server.capacity.num_window_pages,
      replay > 0 ? fmt::format("; the last {} tokens of a prompt in all layers", replay) : "");
  if (!flags.html.empty()) {
    const ServingReport report{model, plan, device, figures, num_devices, tokens_per_device, setup + "."};
    write_report_file(flags.html, serving_html(report, provenance()), "a browser");
  }
  if (flags.json) {
    nlohmann::ordered_json json{{"model", model.name},
                                {"device", device.name},
                                {"plan", to_text(plan)},
                                {"num_devices", num_devices},
                                {"data_parallel_groups", plan.dp},
                                {"max_sequences", engine.max_sequences},
                                {"max_batch_tokens", engine.max_batch_tokens},
                                {"bounded_replay", replay},
                                {"cache_pages", options.server.capacity.num_pages},
                                {"tokens_per_second_per_device", tokens_per_device},
                                {"simulated_in_seconds", seconds},
                                {"step_times_computed", times->num_computed()}};
    json["group"] = to_json(figures);
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{} on {} x {}{}: {}\n{}\n", model.name, num_devices, device.description,
             flags.disaggregate ? ", half of them for prompts" : "", to_text(plan), setup);
  if (plan.dp > 1) fmt::print("one of {} data-parallel groups, with its share of the load:\n", plan.dp);
  fmt::print(
      "\n{}\n{:.1f} tokens/s with prompts for each device; simulated in {:.1f} s, {} of {} step times "
      "computed\n",
      to_text(figures), tokens_per_device, seconds, times->num_computed(), times->num_asked());
}

}  // namespace

void add_simulate_serve_command(Options& command) {
  auto flags = std::make_shared<ServeSimulationFlags>();
  flags->requests.prompt.mean = 1024;
  flags->requests.output.mean = 256;
  flags->server.engine.max_sequences = 64;
  flags->server.engine.max_batch_tokens = 8192;
  flags->server.engine.reserved_tails = 16;
  flags->server.scheduler.max_queue = std::numeric_limits<std::int64_t>::max();
  flags->deployment.add_to(command);
  add_load_options(command, *flags);
  add_engine_options(command, *flags);
  command.real("--ttft", flags->ttft_ms, kMillisecondsRange,
               "Limit of goodput for the first token, ms; 0: none");
  command.real("--tpot", flags->tpot_ms, kMillisecondsRange,
               "Limit of goodput for each token after it, ms; 0: none");
  command.integer("--step-grid", flags->grid.sum_bits, {0, kMaxGridBits},
                  "Steps alike in so many leading bits of their sums take the time of one of them");
  command.path("--html", flags->html, "Write a page with plots and tables, for a browser");
  command.flag("--json", flags->json, "One JSON line; times in seconds");
  command.action([flags] { run_serve_simulation(*flags); });
}

}  // namespace baleen
