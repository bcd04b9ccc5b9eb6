/// The requests in the loop's hands, from submission to end. Owns the jobs; the lineup decides which of them
/// run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "scheduler/job.h"
#include "scheduler/lineup.h"
#include "scheduler/recent_prefixes.h"
#include "scheduler/scheduler.h"

namespace baleen {

class JobBoard final : private ContenderOwner {
 public:
  /// All four outlive the board.
  JobBoard(StepEngine& engine, const Tokenizer& tokenizer, const Scheduler::Clock& clock,
           const EngineLimits& limits, SchedulerStats& stats);
  /// The sequences of jobs that still run are closed; their sinks hear nothing.
  ~JobBoard() override = default;

  /// Takes in a request, to wait. One that can never run fails at once, with a sentence.
  void add(Submission&& submission);
  void cancel(RequestId id);
  void cancel_all();

  /// Who waits and who runs. All its contenders are jobs of this board.
  Lineup& lineup() { return lineup_; }
  [[nodiscard]] const Lineup& lineup() const { return lineup_; }
  [[nodiscard]] bool empty() const { return jobs_.empty(); }
  [[nodiscard]] const RecentPrefixes& recent_prefixes() const { return recent_prefixes_; }
  /// The job, if it still runs on that sequence; null otherwise.
  [[nodiscard]] Job* find(RequestId id, SequenceId sequence) const;
  /// The job, running or waiting; null when it has ended.
  [[nodiscard]] Job* job(RequestId id) const;

  /// Ends a job, running or waiting, and destroys it. The cache takes over its pages when `keep`.
  void end(Job& job, ReplyEnd end, std::string error, bool keep);
  void end_failed(Job& job, std::string error) {
    end(job, ReplyEnd::kFailed, std::move(error), /*keep=*/false);
  }
  void fail_running(const std::string& error);
  /// Those that wait too.
  void fail_all(const std::string& error);

 private:
  [[nodiscard]] std::optional<SequenceId> open(Contender& contender) override;
  void started(Contender& contender) override;
  void stopped(Contender& contender) override;
  void refuse(Contender& contender, std::string sentence) override;
  [[nodiscard]] const Contender* find(RequestId id) const override;
  [[nodiscard]] std::string reason_to_refuse(const Request& request) const;

  StepEngine& engine_;
  const Tokenizer& tokenizer_;
  const Scheduler::Clock& clock_;
  const EngineLimits& limits_;
  SchedulerStats& stats_;
  /// Or why this tokenizer has none: then requests with rules fail, and others do not care.
  Result<std::shared_ptr<const MaskVocabulary>> mask_vocabulary_;

  RecentPrefixes recent_prefixes_;
  std::map<RequestId, std::unique_ptr<Job>> jobs_;
  Lineup lineup_;
};

}  // namespace baleen
