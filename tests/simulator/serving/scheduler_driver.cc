#include "tests/simulator/serving/scheduler_driver.h"

#include <algorithm>
#include <map>
#include <memory>
#include <queue>

#include "scheduler/scheduler.h"
#include "tests/scheduler/fake_model.h"
#include "tests/simulator/serving/timed_engine.h"

namespace baleen {
namespace {

struct ComesLater {
  bool operator()(const ServingRequest& a, const ServingRequest& b) const {
    return a.arrival != b.arrival ? a.arrival > b.arrival : a.number > b.number;
  }
};

class Driver {
 public:
  Driver(const ServingOptions& options, RequestSource& workload)
      : source_(workload),
        acceptance_(options.acceptance),
        setup_(options.server),
        patience_seconds_(options.patience_seconds),
        engine_(setup_, acceptance_, requests_, now_),
        scheduler_(engine_, fake_tokenizer(), setup_.scheduler, [this] { return now_; }) {
    // Who comes during a step finds the queue as it was at its beginning, and is numbered before those whom
    // its end brings.
    engine_.on_step_end = [this] { submit_all(); };
  }

  ServingResult run() {
    fetch_next();
    for (;;) {
      submit_all();
      cancel_impatient();
      scheduler_.turn();
      if (!scheduler_.idle()) continue;
      if (arrivals_.empty()) break;
      now_ = std::max(now_, arrivals_.top().arrival);
    }
    const SchedulerStats stats = scheduler_.stats();
    result_.servers.push_back({.steps = stats.steps, .preemptions = stats.preemptions});
    return std::move(result_);
  }

 private:
  struct Sink : ReplySink {
    Sink(Driver& of, const ServingRequest& what) : driver(of), request(what) {}
    void piece(const ReplyPiece&) override { driver.came(request, last); }
    void finished(const ReplySummary& summary) override { driver.finished(request, summary); }
    Driver& driver;
    ServingRequest request;
    double last = -1;
  };

  RequestRecord& record(const ServingRequest& request) {
    const auto number = static_cast<std::size_t>(request.number);
    result_.requests.resize(std::max(result_.requests.size(), number + 1));
    return result_.requests[number];
  }

  void fetch_next() {
    const auto next = source_.next();
    if (!next) return;
    last_fetched_ = next->number;
    arrivals_.push(*next);
  }

  /// Those who have come until now, each at its own time.
  void submit_all() {
    const double end = now_;
    while (!arrivals_.empty() && arrivals_.top().arrival <= end) {
      now_ = arrivals_.top().arrival;
      submit();
    }
    now_ = end;
  }

  void cancel_impatient() {
    for (const auto& [id, number] : without_token_) {
      if (now_ >= record(requests_[number]).arrival + patience_seconds_) scheduler_.cancel(id);
    }
  }

  void submit() {
    const ServingRequest request = arrivals_.top();
    arrivals_.pop();
    if (request.number == last_fetched_) fetch_next();
    requests_.resize(std::max(requests_.size(), static_cast<std::size_t>(request.number) + 1));
    requests_[static_cast<std::size_t>(request.number)] = request;
    Request real;
    real.prompt.resize(static_cast<std::size_t>(request.prompt_tokens));
    fill_tokens(request.stream, 0, real.prompt);
    real.max_tokens = request.output_tokens;
    real.sampling.temperature = 1;
    real.sampling.top_k = static_cast<int>(request.number) + 1;
    record(request).arrival = request.arrival;
    record(request).prompt_tokens = request.prompt_tokens;
    if (const auto id = scheduler_.submit(std::move(real), std::make_shared<Sink>(*this, request))) {
      without_token_.emplace(*id, static_cast<std::size_t>(request.number));
      submitted_at_.resize(requests_.size());
      submitted_at_[static_cast<std::size_t>(request.number)] = now_;
      return;
    }
    record(request).end = RequestEnd::kTurnedAway;
    go_on_after(request);
  }

  void came(const ServingRequest& request, double& last) {
    if (last < 0) {
      record(request).first_token = now_;
      forget(request);
    } else {
      result_.gaps.add(now_ - last);
    }
    last = now_;
  }

  void finished(const ServingRequest& request, const ReplySummary& summary) {
    RequestRecord& of = record(request);
    const bool failed = summary.end == ReplyEnd::kFailed;
    of.end = failed                                ? RequestEnd::kRefused
             : summary.end == ReplyEnd::kCancelled ? RequestEnd::kAbandoned
                                                   : RequestEnd::kFinished;
    forget(request);
    of.finished = now_;
    of.cached_tokens = summary.cached_tokens;
    of.output_tokens = summary.reply_tokens;
    of.drafted_tokens = summary.drafted_tokens;
    of.accepted_tokens = summary.accepted_tokens;
    of.preemptions = summary.preemptions;
    of.admitted = submitted_at_[static_cast<std::size_t>(request.number)] + summary.queue_seconds;
    if (failed && result_.first_refusal.empty()) result_.first_refusal = summary.error;
    go_on_after(request);
  }

  void forget(const ServingRequest& request) {
    std::erase_if(without_token_, [&](const auto& entry) {
      return entry.second == static_cast<std::size_t>(request.number);
    });
  }

  void go_on_after(const ServingRequest& request) {
    if (const auto next = source_.after(request, now_)) arrivals_.push(*next);
  }

  RequestSource& source_;
  Acceptance acceptance_;
  ServerSetup setup_;
  double now_ = 0;
  std::int64_t last_fetched_ = -1;
  std::vector<ServingRequest> requests_;
  std::vector<double> submitted_at_;
  std::map<RequestId, std::size_t> without_token_;  ///< numbers
  double patience_seconds_;
  std::priority_queue<ServingRequest, std::vector<ServingRequest>, ComesLater> arrivals_;
  ServingResult result_;
  TimedEngine engine_;
  Scheduler scheduler_;
};

}  // namespace

ServingResult serve_with_scheduler(const ServingOptions& options, RequestSource& workload) {
  return Driver(options, workload).run();
}

}  // namespace baleen
