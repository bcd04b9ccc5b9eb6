/// Steps of the running jobs: plan, draft, run the engine, take what it gives.
///
/// Where the engine runs ahead, the next step is planned and begun while one is under way. What it needs of
/// the one before are tokens that the device chooses; it goes ahead if nothing on the host decides any of
/// them (masks, penalties, logprobs), neither step has drafts, and there is room without taking any from
/// running jobs.
///
///     turn k        plan n+1, queue it        collect n, publish its tokens
///     device    ... step n ....................│ step n+1 ...
///
/// How many drafts a step accepts decides where the next one begins: it is queued right after its predecessor
/// was collected, chains of drafts included; tokens are published and requests admitted while it runs.
///
///     turn k        admit       collect n, plan n+1, queue it       publish the tokens of n
///     device    ... step n .....│                          drafts and step n+1 ...
///
/// With a threshold of confidence a chain's length is known only when its drafts are there: they are made
/// first, link by link, and the step then waits for nothing but itself.
///
/// A reply that ends with a token of step n then has a row too many in step n+1. Its sequence is closed as it
/// was before that row, and the row's token is dropped: a result counts only while its job runs on the
/// sequence that it was for.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "scheduler/draft_schedule.h"
#include "scheduler/engine_time.h"
#include "scheduler/job_board.h"
#include "scheduler/job_step.h"
#include "scheduler/row_taker.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/step_planner.h"

namespace baleen {

class StepRunner {
 public:
  /// `limits` are within the options. All referenced outlive the runner.
  StepRunner(StepEngine& engine, JobBoard& board, const Scheduler::Clock& clock, const EngineLimits& limits,
             const SchedulerOptions& options, SchedulerStats& stats)
      : engine_(engine),
        board_(board),
        clock_(clock),
        schedule_(most_drafts(limits, options), options.draft_schedule),
        planner_(engine, board.lineup(), step_budget(limits, options), schedule_),
        taker_(engine, board, planner_, clock, most_drafts(limits, options), schedule_, stats),
        chooses_(limits.chooses),
        queues_(limits.queues),
        runs_ahead_(limits.runs_ahead),
        draft_threshold_(options.draft_threshold),
        warn_(options.warn),
        time_(stats),
        stats_(stats) {}
  /// Waits for steps under way, and drops what they give.
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  /// Runs a step, or begins one and takes what an earlier one gives. Nothing when no request runs.
  void run();
  [[nodiscard]] bool under_way() const { return !under_way_.empty(); }

 private:
  using Parts = std::vector<JobStep>;
  struct Step {
    Parts parts;
    DraftDecision decision;  ///< about its drafts
  };

  [[nodiscard]] Parts parts_of(std::span<const PlannedPart> plan) const;
  /// Begins the step where the engine queues and chooses every token, else runs it.
  void begin(Step step);
  void run_and_wait(Step& step);
  /// Begins the next step while one is under way, if it can be.
  void begin_ahead();
  [[nodiscard]] bool queue(Step& step);
  void collect();
  void draft(Step& step);
  /// Takes the last drafts from chains that are too long for what they promise.
  void cut(Step& step) const;
  /// Lets the engine choose what it can; true when that is all.
  [[nodiscard]] bool let_engine_choose(Parts& parts) const;
  /// What a step of `seconds` gave.
  void take(Step& step, const Result<StepOutput>& output, double seconds);
  /// Once, when drafts are hardly ever right.
  void warn_of_bad_drafts();
  [[nodiscard]] Job& job_of(const JobStep& part) const { return *board_.find(part.id, part.sequence); }

  StepEngine& engine_;
  JobBoard& board_;
  const Scheduler::Clock& clock_;
  DraftSchedule schedule_;
  StepPlanner planner_;
  RowTaker taker_;
  bool chooses_;     ///< the engine, tokens
  bool queues_;      ///< the engine, steps that the loop need not wait for
  bool runs_ahead_;  ///< the engine, of this loop
  double draft_threshold_;
  std::function<void(const std::string&)> warn_;
  bool has_warned_ = false;
  std::deque<Step> under_way_;
  EngineTime time_;
  SchedulerStats& stats_;
};

}  // namespace baleen
