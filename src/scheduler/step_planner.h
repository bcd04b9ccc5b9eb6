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

  /// By falling importance; none when nobody runs. Running ones may be preempted for room, or refused for the lack of
  /// it. Valid until the next call.
  [[nodiscard]] std::span<const PlannedPart> plan();
  /// To be told of every part after its step, when its sequence has seen the tokens: the prompt is shared at its end.
  void after_step(Contender& contender);

 private:
  /// False when the part is out, for want of room.
  [[nodiscard]] bool make_room(PlannedPart& part);

  SequenceKeeper& sequences_;
  Lineup& lineup_;
  StepBudget budget_;
  std::vector<StepDemand> demands_;
  std::vector<PlannedPart> parts_;
};

}  // namespace baleen
