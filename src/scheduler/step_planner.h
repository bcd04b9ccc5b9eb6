/// Which of the running requests take part in a step, and with how many tokens, for which there is room then.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/lineup.h"
#include "scheduler/step_plan.h"

namespace baleen {

struct PlannedPart {
  Contender* contender = nullptr;
  StepShare share;
};

class StepPlanner {
 public:
  /// Both outlive the planner.
  StepPlanner(SequenceKeeper& sequences, Lineup& lineup, const StepBudget& budget)
      : sequences_(sequences), lineup_(lineup), budget_(budget) {}

  /// By falling importance; none when no request runs. Running ones may be preempted for room, or refused for
  /// the lack of it. Valid until the next call.
  [[nodiscard]] std::span<const PlannedPart> plan();
  /// The plan of a step that begins while another one is under way: the same, or none where that would take
  /// room from running ones. None is preempted or refused.
  [[nodiscard]] std::span<const PlannedPart> plan_ahead();
  /// To be called for every part after its step, when its sequence has seen `num_seen` tokens: the prompt is
  /// shared at its end.
  void after_step(Contender& contender, std::int64_t num_seen);

 private:
  /// Fills parts_ with who takes part, by falling importance.
  void divide_step();
  /// False when the part is out, for want of room.
  [[nodiscard]] bool make_room(PlannedPart& part);

  SequenceKeeper& sequences_;
  Lineup& lineup_;
  StepBudget budget_;
  std::vector<StepDemand> demands_;
  std::vector<PlannedPart> parts_;
};

}  // namespace baleen
