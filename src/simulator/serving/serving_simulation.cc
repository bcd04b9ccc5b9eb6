#include "simulator/serving/serving_simulation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <queue>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/number.h"

namespace baleen {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::int64_t kEndedBetweenReports = 1024;

struct ComesLater {
  bool operator()(const ServingRequest& a, const ServingRequest& b) const {
    return a.arrival != b.arrival ? a.arrival > b.arrival : a.number > b.number;
  }
};

class Simulation {
 public:
  Simulation(const ServingOptions& options, RequestSource& workload) : options_(options), source_(workload) {
    const bool two_pools = options.decode.has_value();
    if (two_pools && !(options.link.bytes_per_second > 0 && options.link.latency_seconds >= 0)) {
      fail(
          "the link between the pools: {} bytes a second and a latency of {} s; give a positive bandwidth "
          "and no "
          "negative latency",
          options.link.bytes_per_second, options.link.latency_seconds);
    }
    servers_.emplace_back(options.server, options.acceptance, /*prefill_only=*/two_pools,
                          options.patience_seconds, result_.gaps);
    if (two_pools) {
      servers_.emplace_back(*options.decode, options.acceptance, /*prefill_only=*/false, kForEver,
                            result_.gaps);
    }
  }

  ServingResult run() {
    if (!(options_.patience_seconds > 0)) {
      fail("patience: {} s; clients wait at least a little", options_.patience_seconds);
    }
    fetch_next();
    for (double next = next_event(); next < kNever; next = next_event()) {
      BALEEN_CHECK_LE(now_, next);
      now_ = next;
      check_bounds();
      while (next_event() == now_) handle_event();
      begin_steps();
    }
    for (const Place& place : servers_) {
      place.server.check_all_came_back();
      result_.servers.push_back(place.server.record());
      if (result_.first_refusal.empty()) result_.first_refusal = place.server.first_refusal();
    }
    return std::move(result_);
  }

 private:
  struct Place {
    Place(const ServerSetup& setup, const Acceptance& acceptance, bool prefill_only, double patience_seconds,
          TimeHistogram& gaps)
        : server(setup, acceptance, prefill_only, patience_seconds, gaps) {}
    SimulatedServer server;
    double step_end = kNever;
  };
  struct Transfer {
    double end = 0;
    SimulatedServer::JobPtr job;
  };

  void check_bounds() const {
    if (now_ > kMaxServingSeconds) {
      fail(
          "{:.3g} s of simulated time after {} requests, and more to come; expected at most {:.0e} s, which "
          "is 300 years: look at the device's figures, the rate of requests (‹request rate›, ‹trace speed›, "
          "‹thinking time›) and their number (‹requests›)",
          now_, grouped(num_ended_), kMaxServingSeconds);
    }
    std::int64_t work = 0;
    for (const Place& place : servers_) work += place.server.work();
    if (work > options_.most_work) {
      fail(
          "{} requests of this load take more than {} units of simulated work (50 a step, 1 a sequence of "
          "it) and {} have ended; simulate fewer (‹requests›) or shorter replies (‹reply tokens›)",
          grouped(static_cast<std::int64_t>(result_.requests.size())), grouped(options_.most_work),
          grouped(num_ended_));
    }
  }

  [[nodiscard]] double next_arrival() const { return arrivals_.empty() ? kNever : arrivals_.top().arrival; }
  [[nodiscard]] double next_transfer() const { return transfers_.empty() ? kNever : transfers_.front().end; }
  [[nodiscard]] double next_event() const {
    double next = std::min(next_arrival(), next_transfer());
    for (const Place& place : servers_) next = std::min(next, place.step_end);
    return next;
  }

  /// The first of those of this moment.
  void handle_event() {
    if (next_arrival() == now_) return arrive();
    if (next_transfer() == now_) {
      SimulatedServer::JobPtr job = std::move(transfers_.front().job);
      transfers_.pop_front();
      return submit(servers_.back(), std::move(job));
    }
    const auto place = std::ranges::find(servers_, now_, &Place::step_end);
    place->step_end = kNever;
    place->server.end_steps(now_);
    take_gone(*place);
  }

  void arrive() {
    const ServingRequest request = arrivals_.top();
    arrivals_.pop();
    if (request.number == last_fetched_) fetch_next();
    submit(servers_.front(), std::make_unique<SimulatedJob>(request));
  }

  /// Of those that come whatever happens, one is known ahead.
  void fetch_next() {
    const auto request = source_.next();
    if (!request) return;
    BALEEN_CHECK_LE(now_, request->arrival);
    last_fetched_ = request->number;
    arrivals_.push(*request);
  }

  void submit(Place& place, SimulatedServer::JobPtr job) {
    place.server.submit(std::move(job), now_);
    take_gone(place);
  }

  void take_gone(Place& place) {
    for (SimulatedServer::JobPtr& job : place.server.take_gone()) {
      if (job->record.end == RequestEnd::kUnfinished) {
        send(std::move(job));
      } else {
        finish(*job);
      }
    }
  }

  /// To the pool that decodes.
  void send(SimulatedServer::JobPtr job) {
    const auto bytes = static_cast<double>(transfer_bytes(options_.server.geometry, job->prompt_tokens));
    link_free_ = std::max(now_, link_free_) + bytes / options_.link.bytes_per_second;
    static_cast<Contender&>(*job) = {.prompt_tokens = job->prompt_tokens, .num_tokens = job->num_tokens};
    job->brings_cache = true;
    transfers_.push_back({link_free_ + options_.link.latency_seconds, std::move(job)});
  }

  void finish(const SimulatedJob& job) {
    const auto number = static_cast<std::size_t>(job.request.number);
    result_.requests.resize(std::max(result_.requests.size(), number + 1));
    result_.requests[number] = job.record;
    if (const auto next = source_.after(job.request, now_)) arrivals_.push(*next);
    if (++num_ended_ % kEndedBetweenReports == 0 && options_.on_progress) options_.on_progress(num_ended_);
  }

  /// Every server that has nothing in progress takes its turn.
  void begin_steps() {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      Place& place = servers_[i];
      if (place.step_end < kNever || place.server.empty()) continue;
      // Another one that has yet to begin may end whenever it likes.
      const bool others_begin =
          std::any_of(servers_.begin() + static_cast<std::ptrdiff_t>(i) + 1, servers_.end(),
                      [](const Place& other) { return other.step_end == kNever && !other.server.empty(); });
      const double horizon = others_begin || !options_.skip_ahead ? now_ : next_event();
      place.step_end = place.server.begin_steps(now_, horizon).value_or(kNever);
      take_gone(place);
    }
  }

  const ServingOptions& options_;
  RequestSource& source_;
  ServingResult result_;
  std::deque<Place> servers_;
  std::priority_queue<ServingRequest, std::vector<ServingRequest>, ComesLater> arrivals_;
  std::deque<Transfer> transfers_;
  std::int64_t last_fetched_ = -1;
  std::int64_t num_ended_ = 0;
  double now_ = 0, link_free_ = 0;
};

}  // namespace

std::int64_t transfer_bytes(const CacheGeometry& geometry, std::int64_t num_tokens) {
  std::int64_t bytes = geometry.state_slot_bytes();
  for (std::int64_t block = 0; block < geometry.num_blocks(); ++block) {
    const BlockCache& kept = geometry.block(block);
    bytes += std::min(num_tokens, geometry.window_tokens) * geometry.latent.row_bytes();
    if (kept.ratio == 0) continue;
    const std::int64_t entry_bytes =
        geometry.latent.row_bytes() + (kept.has_index_keys ? geometry.index_key.row_bytes() : 0);
    bytes += num_tokens / kept.ratio * entry_bytes;
  }
  return bytes;
}

ServingResult simulate_serving(const ServingOptions& options, RequestSource& workload) {
  return Simulation(options, workload).run();
}

}  // namespace baleen
