/// One loop owns the engine: admit, build a step from decode tokens and prompt chunks, step, sample, publish.
/// (source: design 6)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/step_engine.h"
#include "scheduler/recent_prefixes.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/scheduler_stats.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

class Inbox;

/// `turn` and `run` belong to one thread, which then is the only one that touches the engine and calls sinks.
/// All else may be called from any thread, sinks included.
///
/// No request makes the loop fail: whatever is wrong with one ends it with a sentence, and an exception from
/// a sink counts as a cancellation.
class Scheduler {
 public:
  /// Seconds since some moment; tests bring a virtual one.
  using Clock = std::function<double()>;

  /// Engine and tokenizer outlive the scheduler, and the clock may be called from any thread.
  Scheduler(StepEngine& engine, const Tokenizer& tokenizer, const SchedulerOptions& options, Clock clock);
  /// Closes the sequences of what still runs; its sinks hear nothing more. `run` leaves nothing behind.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Queues a request. Empty when the queue is full or the loop is draining; the sink is then never called.
  [[nodiscard]] std::optional<RequestId> submit(Request request, std::shared_ptr<ReplySink> sink);
  /// Requests that may wait at a time.
  [[nodiscard]] std::int64_t max_queue() const;
  /// Ends a request at the next turn, wherever it is; unknown or finished ones are ignored.
  void cancel(RequestId id);
  [[nodiscard]] SchedulerStats stats() const;
  /// Runs `task` in the loop's thread before its next turn, so that it may look at the engine. Any thread;
  /// dropped when the loop has ended.
  void between_turns(std::function<void()> task);

  /// For a task between two turns: what was found of the prompts of recent requests, the newest last.
  [[nodiscard]] std::vector<RecentPrefix> recent_prefixes() const;

  /// One turn of the loop. False when there was nothing to do. Throws `LostDevice`, with which every request
  /// has failed then.
  bool turn();
  /// Turns, and sleeps while there is nothing to do, until `stop`; then cancels what is left. Throws what a
  /// turn throws, with which every request has failed then.
  void run(std::stop_token stop);
  /// From now on nothing is admitted to the queue; `idle()` tells when all is done.
  void drain();
  /// Fails what waits or runs then with `error`, at the next turn. Any thread.
  void fail_all(const std::string& error);
  [[nodiscard]] bool idle() const;

 private:
  struct Loop;

  Clock clock_;
  std::unique_ptr<Inbox> inbox_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace baleen
