#include "server/metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <vector>

#include "log/log.h"

namespace baleen {
namespace {

using prometheus::ClientMetric;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;

const Histogram::BucketBoundaries kLongSeconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                  2.5,   5,    10,    30,   60,  120,  300};
const Histogram::BucketBoundaries kGapSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                 0.1,   0.25,   0.5,   1,    2.5};
const Histogram::BucketBoundaries kTokensPerStep = {1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 6, 8};

/// One family of counters or gauges that the parts keep themselves.
class FamilyList {
 public:
  FamilyList& add(MetricType type, std::string name, std::string help) {
    families_.push_back({std::move(name), std::move(help), type, {}});
    return *this;
  }
  FamilyList& value(double value, std::vector<ClientMetric::Label> labels = {}) {
    ClientMetric metric;
    metric.label = std::move(labels);
    if (families_.back().type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    families_.back().metric.push_back(std::move(metric));
    return *this;
  }
  FamilyList& counter(std::string name, std::string help, std::int64_t count) {
    return add(MetricType::Counter, std::move(name), std::move(help)).value(static_cast<double>(count));
  }
  FamilyList& gauge(std::string name, std::string help, std::int64_t count) {
    return add(MetricType::Gauge, std::move(name), std::move(help)).value(static_cast<double>(count));
  }
  [[nodiscard]] std::vector<MetricFamily>& families() { return families_; }

 private:
  std::vector<MetricFamily> families_;
};

void add_pools(FamilyList& list, const CacheUse& cache) {
  list.add(MetricType::Gauge, "baleen_cache_pages", "Pages of a cache pool by what they are used for");
  const auto pool = [&](const std::string& name, const PoolUse& use) {
    list.value(static_cast<double>(use.free), {{"pool", name}, {"use", "free"}});
    list.value(static_cast<double>(use.cached), {{"pool", name}, {"use", "cached"}});
    list.value(static_cast<double>(use.in_use), {{"pool", name}, {"use", "sequences"}});
  };
  pool("pages", cache.pages);
  pool("window_pages", cache.window_pages);
  pool("state_slots", cache.state_slots);
}

void add_transfers(FamilyList& list, const EngineView& engine) {
  const std::int64_t num_prefill = engine.num_prefill_groups;
  list.add(MetricType::Gauge, "baleen_rank_group_roles", "Data-parallel groups by what they do")
      .value(static_cast<double>(num_prefill), {{"role", "prefill"}})
      .value(static_cast<double>(engine.num_groups - num_prefill), {{"role", "decode"}});
  const TransferStats& transfers = *engine.transfers;
  list.counter("baleen_transferred_sequences_total", "Sequences that decode groups took over",
               transfers.num_sequences)
      .counter("baleen_transferred_prefixes_total",
               "Prefixes that prefill groups got out of the cache of a decode group", transfers.num_prefixes)
      .counter("baleen_transferred_bytes_total", "Bytes of sequences between groups", transfers.num_bytes)
      .counter("baleen_refused_transfers_total",
               "Transfers whose manifest was not what the receiver expected", transfers.num_refused);
}

void add_balance(FamilyList& list, const ExpertBalance& balance) {
  if (balance.num_evaluations > 0) {
    list.add(MetricType::Gauge, "baleen_expert_balancedness",
             "Mean over largest token load of a layer's ranks in the latest window, with the expert maps of "
             "then and of now, over layers");
    const auto over_layers = [&](const std::string& maps, const Balancedness& value) {
      list.value(value.mean, {{"maps", maps}, {"layers", "mean"}});
      list.value(value.least, {{"maps", maps}, {"layers", "least"}});
    };
    over_layers("before", balance.before());
    over_layers("after", balance.after());
  }
  list.counter("baleen_expert_evaluations_total", "Evaluations of the loads of experts",
               balance.num_evaluations)
      .counter("baleen_expert_rebalancings_total", "Evaluations that changed expert maps",
               balance.num_rebalancings)
      .counter("baleen_expert_rebalancing_failures_total",
               "Changes of expert maps that a rank could not make", balance.num_failures)
      .counter("baleen_moved_experts_total", "Experts that a rank got which it did not have",
               balance.num_moved_experts)
      .counter("baleen_moved_expert_bytes_total", "Bytes of those experts", balance.moved_bytes);
}

void add_places(FamilyList& list, const ExpertPlaceStats& experts) {
  const auto& [placed, fetched, computed] = experts;
  const auto by_place = [&](const char* place, auto count) {
    list.value(static_cast<double>(count), {{"place", place}});
  };
  list.add(MetricType::Gauge, "baleen_experts", "Routed experts by where they lie");
  by_place("gpu", placed.num_on_device());
  by_place("host", placed.num_on_host);
  by_place("disk", placed.num_on_disk);
  list.add(MetricType::Counter, "baleen_chosen_experts_total",
           "Experts that tokens of small steps chose, by where they were found; once for a step and layer");
  by_place("gpu", fetched.resident);
  by_place("slot", fetched.in_slots);
  by_place("host", fetched.from_host);
  by_place("disk", fetched.from_disk);
  by_place("computed", fetched.computed);
  list.add(MetricType::Counter, "baleen_fetched_expert_bytes_total",
           "Bytes of experts copied to the GPU for small steps, before the router had chosen and after")
      .value(static_cast<double>(fetched.bytes_ahead), {{"when", "before"}})
      .value(static_cast<double>(fetched.bytes_behind), {{"when", "after"}});
  list.add(MetricType::Counter, "baleen_guessed_experts_total", "Experts that a guess began to fetch")
      .value(static_cast<double>(fetched.guessed));
  list.add(MetricType::Counter, "baleen_guessed_experts_chosen_total",
           "Of these, those that were then chosen")
      .value(static_cast<double>(fetched.guessed_chosen));
  if (!computed) return;
  const auto add_counter = [&](const char* name, const char* help, double value) {
    list.add(MetricType::Counter, name, help).value(value);
  };
  add_counter("baleen_computed_expert_rows_total", "Rows of experts that the host's cores computed",
              static_cast<double>(fetched.computed_rows));
  add_counter("baleen_host_expert_requests_total", "Times that a layer asked the host to compute experts",
              static_cast<double>(computed->requests));
  add_counter("baleen_host_expert_seconds_total", "Time that the host took to compute them",
              computed->seconds);
  add_counter("baleen_host_expert_wait_seconds_total", "Time that layers waited for the host's rows",
              1e-9 * static_cast<double>(fetched.waited_ns));
  list.add(MetricType::Gauge, "baleen_host_expert_split_seconds",
           "What an expert with one row takes by the split in force")
      .value(1e-9 * computed->times.compute_expert, {{"way", "compute"}})
      .value(computed->fetch_seconds, {{"way", "fetch"}});
}

/// By position in their chains, from 1.
void add_drafts(FamilyList& list, const SchedulerStats& stats) {
  if (stats.drafts_by_depth.empty()) return;
  const auto by_position = [&](std::int64_t DraftsAtDepth::*count) {
    for (std::size_t i = 0; i < stats.drafts_by_depth.size(); ++i)
      list.value(static_cast<double>(stats.drafts_by_depth[i].*count), {{"position", std::to_string(i + 1)}});
  };
  list.add(MetricType::Counter, "baleen_drafts_total",
           "Drafts that steps checked, by position in their chain");
  by_position(&DraftsAtDepth::drafted);
  list.add(MetricType::Counter, "baleen_accepted_drafts_total",
           "Of those, the ones that were accepted with all before them");
  by_position(&DraftsAtDepth::accepted);
}

void add_disk(FamilyList& list, const DiskTierStats& disk) {
  list.gauge("baleen_disk_files", "Files of the disk tier", disk.num_files)
      .gauge("baleen_disk_bytes", "Bytes of the disk tier's files", disk.file_bytes)
      .counter("baleen_disk_written_pages_total", "Pages written to disk", disk.written_pages)
      .counter("baleen_disk_read_pages_total", "Pages read from disk", disk.read_pages)
      .counter("baleen_disk_dropped_pages_total", "Pages not written because the queue was full",
               disk.dropped_pages)
      .counter("baleen_disk_rejected_files_total", "Damaged or foreign files ignored", disk.rejected_files)
      .counter("baleen_disk_evicted_files_total", "Files removed to keep the budget", disk.evicted_files)
      .gauge("baleen_disk_knows_model", "1 once the checkpoint is known from others, so that pages are used",
             disk.knows_model ? 1 : 0)
      .counter("baleen_disk_hashed_bytes_total", "Bytes of the checkpoint read to know it from others",
               disk.hashed_bytes);
}

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("baleen_requests_total")
                                                          .Help("API requests by protocol and HTTP status")
                                                          .Register(registry);
  prometheus::Histogram& queue =
      histogram("baleen_queue_seconds", "From submission to admission", kLongSeconds);
  prometheus::Histogram& first_token =
      histogram("baleen_time_to_first_token_seconds", "From submission to the first token", kLongSeconds);
  prometheus::Histogram& token_gap =
      histogram("baleen_time_between_tokens_seconds", "Between the steps that brought tokens", kGapSeconds);
  prometheus::Histogram& total =
      histogram("baleen_request_seconds", "From submission to the end", kLongSeconds);
  prometheus::Histogram& tokens_per_step =
      histogram("baleen_tokens_per_decode_step",
                "Tokens of a reply over its decode steps: the gain of drafting", kTokensPerStep);

 private:
  prometheus::Histogram& histogram(const char* name, const char* help,
                                   const Histogram::BucketBoundaries& bounds) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, bounds);
  }
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::observe(const RequestReport& report) {
  families_->requests
      .Add({{"api", std::string(report.protocol->name)}, {"status", std::to_string(report.status)}})
      .Increment();
  for (const double gap : report.token_gaps_seconds) families_->token_gap.Observe(gap);
  for (const ReplySummary& choice : report.choices) {
    if (choice.reply_tokens == 0) continue;
    families_->queue.Observe(choice.queue_seconds);
    families_->first_token.Observe(choice.first_token_seconds);
    families_->total.Observe(choice.total_seconds);
    if (choice.drafted_tokens > 0 && choice.steps > 0) {
      families_->tokens_per_step.Observe(static_cast<double>(choice.reply_tokens - 1) /
                                         static_cast<double>(choice.steps));
    }
  }
}

std::string Metrics::text(const SchedulerStats& stats, const EngineView& engine,
                          const HttpStats& http) const {
  FamilyList list;
  list.gauge("baleen_requests_waiting", "Requests in the queue", stats.waiting)
      .gauge("baleen_requests_running", "Requests with a sequence", stats.running)
      .gauge("baleen_ranks", "Ranks that run the model together", engine.num_ranks)
      .gauge("baleen_rank_groups", "Data-parallel groups of ranks", engine.num_groups)
      .counter("baleen_requests_finished_total", "Replies that ended by themselves or by a limit",
               stats.finished)
      .counter("baleen_requests_cancelled_total", "Requests cancelled or left by their client",
               stats.cancelled)
      .counter("baleen_requests_failed_total", "Requests that failed", stats.failed)
      .counter("baleen_requests_refused_total", "Requests refused because the queue was full", stats.refused)
      .counter("baleen_prompt_tokens_total", "Tokens of prompts", stats.prompt_tokens)
      .counter("baleen_cached_tokens_total", "Of those, found in the prefix cache", stats.cached_tokens)
      .counter("baleen_reply_tokens_total", "Tokens sampled", stats.reply_tokens)
      .counter("baleen_drafted_tokens_total", "Tokens drafted by the draft head", stats.drafted_tokens)
      .counter("baleen_accepted_tokens_total", "Drafted tokens that were accepted", stats.accepted_tokens)
      .counter("baleen_draft_chains_total",
               "Chains of drafts that steps checked: with the accepted drafts, the tokens of those steps",
               stats.draft_chains)
      .counter("baleen_steps_total", "Engine steps", stats.steps)
      .counter("baleen_looping_replies_total", "Replies that ended because they looped",
               stats.looping_replies)
      .counter("baleen_preemptions_total", "Sequences put back because pages ran out", stats.preemptions);
  add_drafts(list, stats);
  list.add(MetricType::Counter, "baleen_ended_thinking_total",
           "Replies whose thinking was ended for them, by why")
      .value(static_cast<double>(stats.thinking_over_budget), {{"cause", "budget"}})
      .value(static_cast<double>(stats.looping_thinking), {{"cause", "repetition"}});
  list.add(MetricType::Counter, "baleen_step_seconds_total", "Time with an engine step under way")
      .value(stats.step_seconds);
  list.add(MetricType::Counter, "baleen_engine_idle_seconds_total",
           "Time with requests but no engine step under way")
      .value(stats.idle_seconds);
  list.add(MetricType::Counter, "baleen_prefix_lookups_total",
           "Prompts looked for in the prefix cache, by why no more was found");
  for (std::size_t end = 0; end < kPrefixEndNames.size(); ++end)
    list.value(static_cast<double>(stats.prefix_ends[end]), {{"end", std::string(kPrefixEndNames[end])}});
  list.counter("baleen_lost_prefix_tokens_total",
               "Cached tokens not found for want of window rows at their end", stats.lost_prefix_tokens);
  add_pools(list, stats.cache);
  if (engine.disk) add_disk(list, *engine.disk);
  if (engine.transfers) add_transfers(list, engine);
  if (engine.expert_balance) add_balance(list, *engine.expert_balance);
  if (engine.expert_places) add_places(list, *engine.expert_places);
  list.add(MetricType::Counter, "baleen_operation_seconds_total", "Time in an operation of the forward pass");
  for (const OperationTime& operation : engine.operations)
    list.value(operation.seconds, {{"operation", operation.name}});
  list.gauge("baleen_http_connections", "Open connections", http.connections)
      .gauge("baleen_http_body_bytes", "Memory held by the bodies of requests", http.body_bytes)
      .counter("baleen_http_failures_total", "Steps of connections that an exception ended", http.failures)
      .counter("baleen_http_accepted_total", "Connections accepted", http.accepted)
      .counter("baleen_http_requests_total", "HTTP requests read", http.requests)
      .counter("baleen_http_rejected_total", "HTTP requests refused before any handler", http.rejected)
      .counter("baleen_http_timed_out_total", "Connections closed for being slow", http.timed_out)
      .counter("baleen_http_dropped_slow_total", "Streams dropped because their client did not read",
               http.dropped_slow)
      .counter("baleen_log_lost_lines_total", "Lines of the log that could not be written", lost_log_lines());
  std::vector<MetricFamily> families = families_->registry.Collect();
  std::ranges::move(list.families(), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace baleen
