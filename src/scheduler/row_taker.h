/// What follows for a job from its rows of a step: tokens, text, the end of its reply.
///
/// Speculation is lossless by exact match. A draft for the n-th token of a reply is chosen with the very draw
/// that will choose the n-th token; after the step the tokens are sampled one by one, from logits and with
/// draws, penalties and masks that are those of a run without drafts, and a draft counts only while it equals
/// what was sampled.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/job_board.h"
#include "scheduler/job_step.h"
#include "scheduler/step_planner.h"

namespace baleen {

/// The rows of a part: logits, or the tokens chosen from them.
struct PartRows {
  ConstActivations<2> logits;
  std::span<const TokenId> chosen;
};

class RowTaker {
 public:
  /// All referenced outlive the taker. At most `most_drafts` a request and step.
  RowTaker(StepEngine& engine, JobBoard& board, StepPlanner& planner, const Scheduler::Clock& clock,
           std::int64_t most_drafts, DraftSchedule& schedule, SchedulerStats& stats)
      : engine_(engine),
        board_(board),
        planner_(planner),
        clock_(clock),
        most_drafts_(most_drafts),
        schedule_(schedule),
        stats_(stats) {
    stats_.drafts_by_depth.resize(static_cast<std::size_t>(most_drafts));
  }

  /// Everything that follows; a reply that goes on is published by the next `publish`. The job may
  /// end.
  void take(Job& job, const JobStep& part, PartRows rows);
  /// Hands on what replies have grown by, best while a step is under way. A client that is gone
  /// ends its job.
  void publish();

 private:
  void publish_later(const Job& job) { unpublished_.push_back(job.id); }
  /// Reports the logprobs of the prompt's tokens that the part's rows predict. Empty, or a sentence.
  [[nodiscard]] static std::string score(Job& job, const JobStep& part, const ConstActivations<2>& logits);
  /// Takes a token from row after row, as long as each is the draft that the next row follows. Empty, or a
  /// sentence.
  [[nodiscard]] std::string sample(Job& job, const JobStep& part, const PartRows& rows);
  /// Counts what became of a part's drafts. `was_refused`: the first that is not accepted was looked at.
  void count_drafts(Job& job, const JobStep& part, std::int64_t num_accepted, bool was_refused);

  StepEngine& engine_;
  JobBoard& board_;
  StepPlanner& planner_;
  const Scheduler::Clock& clock_;
  std::int64_t most_drafts_;
  DraftSchedule& schedule_;
  SchedulerStats& stats_;
  std::vector<RequestId> unpublished_;
};

}  // namespace baleen
