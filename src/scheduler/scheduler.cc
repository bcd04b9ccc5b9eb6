#include "scheduler/scheduler.h"

#include <exception>
#include <utility>

#include "scheduler/inbox.h"
#include "scheduler/job_board.h"
#include "scheduler/step_runner.h"

namespace baleen {

/// What the loop's thread owns.
struct Scheduler::Loop {
  Loop(StepEngine& step_engine, const Tokenizer& tokenizer, const SchedulerOptions& options,
       const Clock& clock)
      : engine(step_engine),
        limits(within(engine.limits(), options)),
        board(engine, tokenizer, clock, limits, stats),
        runner(engine, board, clock, limits, options, stats) {}

  void take(Inbox::Contents contents) {
    for (Submission& submission : contents.submissions) board.add(std::move(submission));
    for (const RequestId id : contents.cancellations) board.cancel(id);
    for (const std::function<void()>& task : contents.tasks) run_task(task);
  }
  /// One that fails, most often for want of memory, leaves its client without an answer and nothing else.
  static void run_task(const std::function<void()>& task) {
    try {
      task();
    } catch (const std::exception&) {
      return;
    }
  }
  void publish(Inbox& inbox) {
    stats.running = board.lineup().num_running();
    stats.waiting = board.lineup().num_waiting();
    stats.preemptions = board.lineup().num_preemptions();
    stats.cache = engine.cache_use();
    inbox.publish(stats);
  }

  StepEngine& engine;
  EngineLimits limits;
  SchedulerStats stats;
  JobBoard board;
  StepRunner runner;
};

Scheduler::Scheduler(StepEngine& engine, const Tokenizer& tokenizer, const SchedulerOptions& options,
                     Clock clock)
    : clock_(std::move(clock)),
      inbox_(std::make_unique<Inbox>(options.max_queue)),
      loop_(std::make_unique<Loop>(engine, tokenizer, options, clock_)) {
  loop_->publish(*inbox_);
}

Scheduler::~Scheduler() = default;

std::optional<RequestId> Scheduler::submit(Request request, std::shared_ptr<ReplySink> sink) {
  return inbox_->submit(std::move(request), std::move(sink), clock_());
}
void Scheduler::cancel(RequestId id) { inbox_->cancel(id); }
void Scheduler::between_turns(std::function<void()> task) { inbox_->leave(std::move(task)); }
std::int64_t Scheduler::max_queue() const { return inbox_->max_queue(); }

SchedulerStats Scheduler::stats() const { return inbox_->stats(); }
void Scheduler::drain() { inbox_->drain(); }
void Scheduler::fail_all(const std::string& error) {
  between_turns([this, error] { loop_->board.fail_all(error); });
}
bool Scheduler::idle() const { return inbox_->idle(); }

std::vector<RecentPrefix> Scheduler::recent_prefixes() const { return loop_->board.recent_prefixes().all(); }

bool Scheduler::turn() {
  Inbox::Contents contents = inbox_->take();
  const bool anything_came = !contents.empty();
  try {
    loop_->take(std::move(contents));
    loop_->board.lineup().admit();
    loop_->runner.run();
  } catch (const LostDevice& lost) {
    loop_->board.fail_all(lost.what());
    throw;
  } catch (const std::exception& exception) {
    // Out of memory, or a bug: the state of the sequences is unknown.
    loop_->board.fail_running(exception.what());
  }
  loop_->publish(*inbox_);
  return anything_came || !loop_->board.empty() || loop_->runner.under_way();
}

void Scheduler::run(std::stop_token stop) {
  const auto end = [&](const std::string& error) {
    drain();
    loop_->take(inbox_->take());
    if (error.empty()) {
      loop_->board.cancel_all();
    } else {
      loop_->board.fail_all(error);
    }
    inbox_->close();
    loop_->publish(*inbox_);
  };
  try {
    while (!stop.stop_requested()) {
      if (!turn()) inbox_->wait(stop);
    }
  } catch (const std::exception& exception) {
    // A lost device, or no memory even to end what ran. Nothing can be computed any more, but every client
    // hears of it.
    end(exception.what());
    throw;
  }
  end("");
}

}  // namespace baleen
