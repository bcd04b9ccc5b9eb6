/// One step of the running jobs: plan, draft, run the engine, sample, publish.
///
/// Speculation is lossless by exact match. A draft for the n-th token of a reply is chosen with the very draw that
/// will choose the n-th token; after the step the tokens are sampled one by one, from logits and with draws, penalties
/// and masks that are those of a run without drafts, and a draft counts only while it equals what was sampled.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/job_board.h"
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
        most_drafts_(most_drafts),
        chooses_(engine.limits().chooses),
        stats_(stats) {}

  /// Nothing when nobody runs.
  void run();

 private:
  struct Part {
    Job* job = nullptr;
    StepShare share;
    DraftChain drafts;
    std::vector<TokenId> fed;      ///< the newest token and the drafts, where there are drafts
    std::vector<SampleRow> draws;  ///< of the rows it wants, where the engine is to choose
    std::int64_t start = 0;        ///< tokens that its sequence has seen before the step
    [[nodiscard]] StepInput input() const;
  };

  void draft(std::vector<Part>& parts);
  [[nodiscard]] static std::int64_t num_wanted(const StepInput& input);
  /// Lets the engine choose, if it can and nobody in the step needs logits.
  void ask_for_tokens(std::vector<Part>& parts, std::vector<StepInput>& inputs) const;

  /// What a step says of a part's rows: logits, or the tokens chosen from them.
  struct Rows {
    ConstActivations<2> logits;
    std::span<const TokenId> chosen;
    std::int64_t count = 0;
  };
  /// Everything that follows from the part's rows; the job may end.
  void take_rows(Part& part, Rows rows);
  /// Reports the logprobs of the prompt's tokens that rows of it predict. Empty, or a sentence.
  [[nodiscard]] static std::string score(const Part& part, const Rows& rows);
  /// Takes a token from row after row, as long as each is the draft that the next row follows. Empty, or a sentence.
  [[nodiscard]] std::string sample(Part& part, const Rows& rows);

  StepEngine& engine_;
  JobBoard& board_;
  const Scheduler::Clock& clock_;
  StepPlanner planner_;
  std::int64_t most_drafts_;
  bool chooses_;  ///< the engine, tokens
  SchedulerStats& stats_;
};

}  // namespace baleen
