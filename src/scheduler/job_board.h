/// Who waits and who runs: admission, preemption, ends. Owns the jobs and opens and closes their sequences.
///
/// Invariants
///  1. A job is in exactly one of the two lists; it has a sequence iff it runs.
///  2. At most as many run as a step has tokens and logit rows: every job can be in every step.
///  3. Nobody is admitted past a more important job that could start, and nobody is preempted for a less important
///     one. So the most important job runs, can take every page there is, and ends: there is no deadlock, and among
///     equals nobody starves.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "scheduler/job.h"
#include "scheduler/scheduler.h"

namespace baleen {

class JobBoard {
 public:
  /// All four outlive the board.
  JobBoard(StepEngine& engine, const Tokenizer& tokenizer, const Scheduler::Clock& clock,
           const EngineLimits& limits, SchedulerStats& stats);
  /// The sequences of jobs that still run are closed; their sinks hear nothing.
  ~JobBoard();
  JobBoard(const JobBoard&) = delete;
  JobBoard& operator=(const JobBoard&) = delete;

  /// Takes in a request, to wait. One that can never run fails at once, with a sentence.
  void add(Submission&& submission);
  void cancel(RequestId id);
  void cancel_all();

  /// Lets waiting jobs run, in order, while there is room; for one of higher priority, room is made.
  void admit();

  using Jobs = std::set<Job*, MoreImportant>;
  /// By falling importance.
  [[nodiscard]] const Jobs& running() const { return running_; }
  [[nodiscard]] std::int64_t num_waiting() const { return std::ssize(waiting_); }
  [[nodiscard]] bool empty() const { return jobs_.empty(); }

  /// Room for that many more tokens of a running job's sequence, taken from less important jobs if need be: the least
  /// important one first. False when there is none, with nothing changed.
  [[nodiscard]] bool reserve(Job& job, std::int64_t num_tokens);
  /// Stops a running job, to wait for room and be computed again; the cache keeps its pages while it can.
  void preempt(Job& job);

  /// Ends a job, running or waiting, and destroys it. The cache takes over its pages when `keep`.
  void end(Job& job, ReplyEnd end, std::string error, bool keep);
  void end_failed(Job& job, std::string error) {
    end(job, ReplyEnd::kFailed, std::move(error), /*keep=*/false);
  }
  void fail_running(const std::string& error);
  /// Those that wait too.
  void fail_all(const std::string& error);

 private:
  enum class Admission { kRuns, kNoRoom, kEnded };
  [[nodiscard]] Admission try_admit(Job& job);
  /// From running to waiting.
  void put_back(Job& job);
  [[nodiscard]] bool may_start(const Job& job) const;
  /// Whether all tokens of the job find pages beside those that the running jobs have or need for theirs; jobs below
  /// `least_priority` do not count.
  [[nodiscard]] bool fits(const Job& job, int least_priority) const;
  [[nodiscard]] std::string reason_to_refuse(const Request& request) const;
  void start_reply(Job& job);

  StepEngine& engine_;
  const Tokenizer& tokenizer_;
  const Scheduler::Clock& clock_;
  const EngineLimits& limits_;
  SchedulerStats& stats_;
  std::int64_t max_running_;
  /// Or why this tokenizer has none: then requests with rules fail, and others do not care.
  Result<std::shared_ptr<const MaskVocabulary>> mask_vocabulary_;

  std::map<RequestId, std::unique_ptr<Job>> jobs_;
  Jobs waiting_, running_;
  std::int64_t num_ended_ = 0;  ///< of jobs that ran
};

}  // namespace baleen
