/// One loop owns the engine: admit, build a step from decode tokens and prompt chunks, step, sample, publish.
/// (source: design 6)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "engine/step_engine.h"
#include "scheduler/request.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

struct SchedulerOptions {
  std::int64_t max_queue = 256;       ///< requests waiting for admission; one more is refused
  std::int64_t max_batch_tokens = 0;  ///< of a step; 0: the engine's limit
  std::int64_t speculate = 0;         ///< draft tokens a step; at most the engine's limit
  /// Tokens of a step that prompts may take while others decode; 0: half of max_batch_tokens.
  std::int64_t prefill_share_tokens = 0;
};

/// Counters since the start, and the state now.
struct SchedulerStats {
  std::int64_t waiting = 0, running = 0;
  std::int64_t submitted = 0, finished = 0, cancelled = 0, failed = 0, refused = 0;
  std::int64_t prompt_tokens = 0, cached_tokens = 0, reply_tokens = 0;
  std::int64_t drafted_tokens = 0, accepted_tokens = 0;
  std::int64_t steps = 0, preemptions = 0;
  double step_seconds = 0;
  CacheUse cache;
};

/// `submit`, `cancel` and `stats` may be called from any thread; the rest from the one that runs the loop.
class Scheduler {
 public:
  /// Seconds since some moment; tests bring a virtual one.
  using Clock = std::function<double()>;

  Scheduler(StepEngine& engine, const Tokenizer& tokenizer, SchedulerOptions options, Clock clock);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Queues a request. Empty when the queue is full or the loop is draining; the sink is then never called.
  [[nodiscard]] std::optional<RequestId> submit(Request request, std::shared_ptr<ReplySink> sink);
  /// Ends a request at the next step, wherever it is; unknown or finished ones are ignored.
  void cancel(RequestId id);
  [[nodiscard]] SchedulerStats stats() const;
  /// Runs `task` in the loop's thread before its next turn, so that it may look at the engine. Any thread; dropped when
  /// the loop has ended.
  void between_turns(std::function<void()> task);

  /// One turn of the loop. False when there was nothing to do.
  bool turn();
  /// Turns, and sleeps while there is nothing to do, until `stop`; then cancels what is left.
  void run(std::stop_token stop);
  /// From now on nothing is admitted to the queue; `idle()` tells when all is done.
  void drain();
  [[nodiscard]] bool idle() const;
};

}  // namespace baleen
