#include "simulator/search/plan_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/number.h"
#include "model/cache_geometry.h"

namespace baleen {
namespace {

constexpr const char* kTooLate = "first token after the limit";
constexpr const char* kTooSlow = "time per token above the limit";
constexpr const char* kEndless = "a step takes longer than 30 years on this device";
constexpr const char* kNoMemory = "memory does not suffice";

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) found.push_back(i);
  }
  return found;
}

/// An instance's plan with what does not depend on batch or drafts.
struct PlanTimes {
  ParallelPlan plan;
  double prefill_seconds = 0;       ///< what a prompt in one group takes
  double full_prefill_seconds = 0;  ///< what a prompt in each group takes, where no request decodes
};

/// One plan's part of the search; results come together at the end.
class PlanSearch {
 public:
  PlanSearch(const SimulatedModel& model, const DeviceProfile& device, const SearchOptions& options)
      : model_(model), device_(device), options_(options) {}

  /// Batches and drafts of one plan. `alone`: decoding has the instance to itself.
  void decode(const PlanRanks& ranks, const PlanTimes& times, bool alone, SearchResult& result) const {
    const std::int64_t most = std::min(options_.max_drafts, most_drafts(model_.config));
    for (std::int64_t drafts = 0; drafts <= most; ++drafts) {
      for (std::int64_t concurrency = times.plan.dp;
           concurrency <= std::max(times.plan.dp, options_.max_concurrency); concurrency *= 2) {
        if (!try_batch(ranks, times, concurrency, drafts, alone, result))
          break;  // larger ones are slower and need more
      }
    }
  }

 private:
  [[nodiscard]] bool try_batch(const PlanRanks& ranks, const PlanTimes& times, std::int64_t concurrency,
                               std::int64_t drafts, bool alone, SearchResult& result) const {
    ServingLoad load = options_.load;
    load.concurrency = concurrency;
    load.num_drafts = drafts;
    if (alone) load.max_batch_tokens = 1;  // prompts are prefilled elsewhere
    ++result.num_evaluated;
    const std::int64_t memory_bytes = deployment_memory_bytes(ranks, load, device_);
    if (memory_bytes > device_.memory_bytes) {
      ++result.excluded[kNoMemory];
      return false;
    }
    const StepEstimate step = decode_step(ranks, load, device_);
    if (!(step.seconds <= kLongestStepSeconds && times.prefill_seconds <= kLongestStepSeconds)) {
      ++result.excluded[kEndless];
      return false;
    }
    const DeploymentEstimate estimate = steady_state(load, alone ? 0 : times.prefill_seconds, step);
    if (!alone && over(estimate.ttft_seconds, options_.ttft_limit_seconds)) {
      ++result.excluded[kTooLate];
      return false;
    }
    if (over(estimate.tpot_seconds, options_.tpot_limit_seconds)) {
      ++result.excluded[kTooSlow];
      return false;
    }
    const auto reply = static_cast<double>(load.reply_tokens);
    result.ranked.push_back({.plan = times.plan,
                             .num_instances = options_.num_devices / times.plan.num_devices,
                             .concurrency = concurrency,
                             .num_drafts = drafts,
                             .ttft_seconds = estimate.ttft_seconds,
                             .tpot_seconds = estimate.tpot_seconds,
                             .tokens_per_second_per_device = estimate.requests_per_second * reply /
                                                             static_cast<double>(times.plan.num_devices),
                             .tokens_per_second_per_user = 1 / estimate.tpot_seconds,
                             .memory_bytes = memory_bytes});
    return true;
  }

  static bool over(double seconds, double limit) { return limit > 0 && seconds > limit; }

  const SimulatedModel& model_;
  const DeviceProfile& device_;
  const SearchOptions& options_;
};

void append(SearchResult& to, SearchResult&& part) {
  std::ranges::move(part.ranked, std::back_inserter(to.ranked));
  for (const auto& [reason, count] : part.excluded) to.excluded[reason] += count;
  to.num_evaluated += part.num_evaluated;
}

/// Bytes of a prompt's cache on their way from one instance to another.
double transfer_seconds(const SimulatedModel& model, const DeviceProfile& device, const ServingLoad& load,
                        std::int64_t num_devices) {
  const CacheGeometry geometry = cache_geometry(model.config, Precision::kReleased);
  const double bytes = geometry.bytes_per_token() * static_cast<double>(load.prompt_tokens) +
                       static_cast<double>(geometry.window_bytes() * model.config.num_hidden_layers);
  return TimeModel(device, false).collective_seconds({MessageKind::kSend, num_devices, bytes});
}

/// Devices shared out between instances that prefill and instances like `decoding` so that both keep pace.
std::optional<DeploymentCandidate> with_prefill_apart(DeploymentCandidate decoding, const PlanTimes& prefill,
                                                      const SearchOptions& options, double transfer) {
  const double prompts_per_instance = static_cast<double>(prefill.plan.dp) / prefill.full_prefill_seconds;
  const double replies_per_instance = decoding.tokens_per_second_per_device *
                                      static_cast<double>(decoding.plan.num_devices) /
                                      static_cast<double>(options.load.reply_tokens);
  double best = 0;
  for (std::int64_t count = 1; count * prefill.plan.num_devices < options.num_devices; ++count) {
    const std::int64_t left = options.num_devices - count * prefill.plan.num_devices;
    const std::int64_t decoders = left / decoding.plan.num_devices;
    const double rate = std::min(static_cast<double>(count) * prompts_per_instance,
                                 static_cast<double>(decoders) * replies_per_instance);
    if (rate <= best) continue;
    best = rate;
    decoding.num_prefill_instances = count;
    decoding.num_instances = decoders;
  }
  if (best == 0) return std::nullopt;
  decoding.prefill_plan = prefill.plan;
  decoding.ttft_seconds = prefill.full_prefill_seconds + transfer;
  decoding.tokens_per_second_per_device =
      best * static_cast<double>(options.load.reply_tokens) / static_cast<double>(options.num_devices);
  return decoding;
}

std::vector<DeploymentCandidate> pareto_front(const std::vector<DeploymentCandidate>& ranked) {
  std::vector<DeploymentCandidate> front;
  double best_user = 0;
  for (const DeploymentCandidate& candidate : ranked) {
    if (candidate.tokens_per_second_per_user <= best_user) continue;
    best_user = candidate.tokens_per_second_per_user;
    front.push_back(candidate);
  }
  return front;
}

void check(const SearchOptions& options, const ModelConfig& config) {
  constexpr std::int64_t kMaxDevices = 4096;
  if (options.num_devices < 1 || options.num_devices > kMaxDevices)
    fail("‹number of devices› {}: 1 to {} are possible", options.num_devices, kMaxDevices);
  if (options.load.prompt_tokens < 1 || options.load.reply_tokens < 1)
    fail("‹prompt tokens› {} ‹reply tokens› {}: prompts and replies have at least one token",
         options.load.prompt_tokens, options.load.reply_tokens);
  if (options.ttft_limit_seconds < 0 || options.tpot_limit_seconds < 0)
    fail("limits of latency: not below 0");
  constexpr std::int64_t kMaxRequests = 1 << 20;
  if (options.max_concurrency < 1 || options.max_concurrency > kMaxRequests)
    fail("‹concurrency› {}: 1 to {} are possible", options.max_concurrency, kMaxRequests);
  const std::int64_t most = config.max_position_embeddings;
  if (options.load.prompt_tokens > most || options.load.reply_tokens > most - options.load.prompt_tokens)
    fail("‹prompt tokens› {} ‹reply tokens› {}: the model has {} positions for both",
         options.load.prompt_tokens, options.load.reply_tokens, most);
  validate(Workload{.draft_acceptance = options.load.draft_acceptance,
                    .prefix_cache_hit_rate = options.load.prefix_cache_hit_rate,
                    .bounded_replay = options.load.bounded_replay,
                    .imbalance = options.load.imbalance,
                    .hash_imbalance = options.load.hash_imbalance},
           config);
}

/// Batches and drafts of `plans`, all of which may be looked at.
std::int64_t num_deployments(const std::vector<PlanTimes>& plans, const SearchOptions& options,
                             const ModelConfig& config) {
  const std::int64_t num_drafts = 1 + std::min(options.max_drafts, most_drafts(config));
  std::int64_t count = 0;
  for (const PlanTimes& times : plans) {
    const auto batches =
        static_cast<std::uint64_t>(std::max<std::int64_t>(1, options.max_concurrency / times.plan.dp));
    count += num_drafts * std::bit_width(batches);
  }
  return count;
}

void check_work(const std::vector<PlanTimes>& plans, const SearchOptions& options,
                const ModelConfig& config) {
  const std::int64_t count = num_deployments(plans, options, config);
  const std::int64_t pairs = options.disaggregate ? count * std::ssize(plans) : 0;
  if (count <= kMaxDeployments && pairs <= kMaxPairs) return;
  fail(
      "‹number of devices› {}: {} plans with their batches and drafts are {} deployments{}; at most {} are "
      "searched; bound the devices of an instance (‹instance size› 64), ‹concurrency› or ‹most drafts›",
      options.num_devices, grouped(std::ssize(plans)), grouped(count),
      pairs > kMaxPairs ? fmt::format(", and {} pairs of them with prefill apart", grouped(pairs)) : "",
      grouped(pairs > kMaxPairs ? kMaxPairs : kMaxDeployments));
}

/// How ranks with the same batch share its work.
struct Group {
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  bool sequence_parallel = false;
};

/// Of a stage of `ranks`.
std::vector<Group> groups_of(std::int64_t ranks) {
  std::vector<Group> groups;
  for (const std::int64_t size : divisors(ranks)) {
    groups.push_back({.tp = size});
    if (size == 1) continue;
    groups.push_back({.tp = size, .sequence_parallel = true});
    groups.push_back({.cp = size});
  }
  return groups;
}

}  // namespace

std::vector<ParallelPlan> legal_plans(const ModelConfig& config, std::int64_t num_devices,
                                      std::map<std::string, std::int64_t>& excluded) {
  std::vector<ParallelPlan> plans;
  for (const std::int64_t pp : divisors(num_devices)) {
    const std::int64_t ranks = num_devices / pp;
    for (const Group& group : groups_of(ranks)) {
      for (const std::int64_t ep : divisors(ranks)) {
        for (const bool overlap : {false, true}) {
          if (overlap && ranks == 1) continue;
          const ParallelPlan plan = resolved({.num_devices = num_devices,
                                              .tp = group.tp,
                                              .cp = group.cp,
                                              .ep = ep,
                                              .pp = pp,
                                              .sequence_parallel = group.sequence_parallel,
                                              .dual_batch_overlap = overlap},
                                             config);
          const std::vector<std::string> broken = violations(plan, config);
          if (broken.empty()) {
            plans.push_back(plan);
          } else {
            ++excluded["plan cannot be: " + broken.front()];
          }
        }
      }
    }
  }
  return plans;
}

SearchResult search_plans(const SimulatedModel& model, const DeviceProfile& device,
                          const SearchOptions& options, ThreadPool& pool) {
  check(options, model.config);
  SearchResult result;
  std::vector<PlanTimes> plans;
  for (const std::int64_t size : divisors(options.num_devices)) {
    if (options.max_instance > 0 && size > options.max_instance) break;
    for (const ParallelPlan& plan : legal_plans(model.config, size, result.excluded)) plans.push_back({plan});
  }
  check_work(plans, options, model.config);
  const PlanSearch search(model, device, options);
  std::vector<DeploymentCandidate> apart;  // that decode alone
  std::mutex mutex;
  std::int64_t num_done = 0;
  pool.parallel_for(std::ssize(plans), [&](std::int64_t index, int /*thread*/) {
    PlanTimes& times = plans[static_cast<std::size_t>(index)];
    const PlanRanks ranks(model, times.plan);
    SearchResult own, alone;
    ServingLoad one = options.load;
    one.concurrency = times.plan.dp;
    // Whatever does not fit with one request a group does not with more.
    if (deployment_memory_bytes(ranks, one, device) > device.memory_bytes) {
      ++own.excluded[kNoMemory];
    } else {
      times.prefill_seconds = prefill_seconds(ranks, options.load, device, PrefillGroups::kOne);
      search.decode(ranks, times, false, own);
      if (options.disaggregate) {
        times.full_prefill_seconds = prefill_seconds(ranks, options.load, device, PrefillGroups::kAll);
        search.decode(ranks, times, true, alone);
      }
    }
    const std::scoped_lock lock(mutex);
    append(result, std::move(own));
    result.num_evaluated += alone.num_evaluated;
    std::ranges::move(alone.ranked, std::back_inserter(apart));
    if (options.on_plan) options.on_plan(++num_done, std::ssize(plans));
  });
  if (options.disaggregate) {
    const double transfer = transfer_seconds(model, device, options.load, options.num_devices);
    for (const DeploymentCandidate& decoding : apart) {
      std::optional<DeploymentCandidate> best;
      for (const PlanTimes& prefill : plans) {
        if (prefill.full_prefill_seconds == 0) continue;
        if (options.ttft_limit_seconds > 0 &&
            prefill.full_prefill_seconds + transfer > options.ttft_limit_seconds)
          continue;
        const std::optional<DeploymentCandidate> both =
            with_prefill_apart(decoding, prefill, options, transfer);
        if (both && (!best || both->tokens_per_second_per_device > best->tokens_per_second_per_device))
          best = both;
      }
      if (best) result.ranked.push_back(*best);
    }
  }
  // Threads finish in any order: equal figures are ordered by what the plan is.
  std::ranges::sort(result.ranked, [](const DeploymentCandidate& a, const DeploymentCandidate& b) {
    if (a.tokens_per_second_per_device != b.tokens_per_second_per_device)
      return a.tokens_per_second_per_device > b.tokens_per_second_per_device;
    if (a.tpot_seconds != b.tpot_seconds) return a.tpot_seconds < b.tpot_seconds;
    return std::pair(to_text(a.plan), a.concurrency) < std::pair(to_text(b.plan), b.concurrency);
  });
  result.pareto = pareto_front(result.ranked);
  return result;
}

}  // namespace baleen
