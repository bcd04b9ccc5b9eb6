/// Steps of the running jobs: plan, draft, run the engine, take what it gives.
///
/// Where the engine runs ahead, the next step is planned and begun while one is under way. What it needs of
/// the one before are tokens that the device chooses; it goes ahead if nothing on the host decides any of
/// them (masks, penalties, logprobs, drafts) and there is room without taking any from running jobs.
///
///     turn k        plan n+1, queue it        collect n, publish its tokens
///     device    ... step n ....................│ step n+1 ...
///
/// Where drafts are used, how many of them a step accepts decides where the next one begins: it is queued
/// right after its predecessor was collected, chains of drafts included; tokens are published and requests
/// admitted while it runs.
///
///     turn k        admit       collect n, plan n+1, queue it       publish the tokens of n
///     device    ... step n .....│                          drafts and step n+1 ...
///
/// A reply that ends with a token of step n then has a row too many in step n+1. Its sequence is closed as it
/// was before that row, and the row's token is dropped: a result counts only while its job runs on the
/// sequence that it was for.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "scheduler/engine_time.h"
#include "scheduler/job_board.h"
#include "scheduler/job_step.h"
#include "scheduler/row_taker.h"
#include "scheduler/step_planner.h"

namespace baleen {

class StepRunner {
 public:
  /// At most `most_drafts` a request and step. All referenced outlive the runner.
  StepRunner(StepEngine& engine, JobBoard& board, const Scheduler::Clock& clock, const StepBudget& budget,
             std::int64_t most_drafts, SchedulerStats& stats)
      : engine_(engine),
        board_(board),
        clock_(clock),
        planner_(engine, board.lineup(), budget),
        taker_(engine, board, planner_, clock, most_drafts, stats),
        chooses_(engine.limits().chooses),
        queues_(engine.limits().queues),
        runs_ahead_(engine.limits().runs_ahead && most_drafts == 0),
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

  [[nodiscard]] Parts parts_of(std::span<const PlannedPart> plan) const;
  /// Begins the step of `parts` where the engine queues and chooses every token, else runs it.
  void begin(Parts parts);
  void run_and_wait(Parts& parts);
  /// Begins the next step while one is under way, if it can be.
  void begin_ahead();
  [[nodiscard]] bool queue(Parts& parts);
  void collect();
  void draft(Parts& parts);
  /// Lets the engine choose what it can; true when that is all.
  [[nodiscard]] bool let_engine_choose(Parts& parts) const;
  void take(Parts& parts, const Result<StepOutput>& output);
  [[nodiscard]] Job& job_of(const JobStep& part) const { return *board_.find(part.id, part.sequence); }

  StepEngine& engine_;
  JobBoard& board_;
  const Scheduler::Clock& clock_;
  StepPlanner planner_;
  RowTaker taker_;
  bool chooses_;     ///< the engine, tokens
  bool queues_;      ///< the engine, steps that the loop need not wait for
  bool runs_ahead_;  ///< the engine, of this loop
  std::deque<Parts> under_way_;
  EngineTime time_;
  SchedulerStats& stats_;
};

}  // namespace baleen
