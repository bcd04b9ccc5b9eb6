/// Which of the running requests take part in a step, and with how many tokens, for which there is room then.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/draft_schedule.h"
#include "scheduler/lineup.h"
#include "scheduler/step_plan.h"

namespace baleen {

struct PlannedPart {
  Contender* contender = nullptr;
  StepShare share;
};

class StepPlanner {
 public:
  /// All referenced outlive the planner.
  StepPlanner(SequenceKeeper& sequences, Lineup& lineup, const StepBudget& budget,
              const DraftSchedule& schedule)
      : sequences_(sequences), lineup_(lineup), budget_(budget), schedule_(schedule) {}

  /// By falling importance; none when no request runs. Running ones may be preempted for room, or refused for
  /// the lack of it. Valid until the next call.
  [[nodiscard]] std::span<const PlannedPart> plan();
  /// The plan of a step that begins while another one is under way: the same, or none where that would take
  /// room from running ones or the step shall have drafts. None is preempted or refused.
  [[nodiscard]] std::span<const PlannedPart> plan_ahead();
  /// What the latest plan has as drafts, and why.
  [[nodiscard]] const DraftDecision& decision() const { return decision_; }
  /// To be called for every part after its step, when its sequence has seen `num_seen` tokens: the prompt is
  /// shared at its end.
  void after_step(Contender& contender, std::int64_t num_seen);

 private:
  /// Fills parts_ with who takes part, by falling importance.
  void divide_step();
  /// Makes `most_drafts` of demands what the schedule gives.
  void allot_drafts();
  /// False when the part is out, for want of room.
  [[nodiscard]] bool make_room(PlannedPart& part);

  SequenceKeeper& sequences_;
  Lineup& lineup_;
  StepBudget budget_;
  const DraftSchedule& schedule_;
  DraftDecision decision_;
  std::vector<StepDemand> demands_;
  std::vector<DraftCandidate> candidates_;
  std::vector<PlannedPart> parts_;
};

}  // namespace baleen
