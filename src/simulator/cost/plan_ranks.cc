#include "simulator/cost/plan_ranks.h"

#include <algorithm>

namespace baleen {

const RankModel& PlanRanks::of(const Stage& stage) const {
  const auto found = std::ranges::find_if(ranks_, [&](const auto& rank) { return rank->stage() == stage; });
  if (found != ranks_.end()) return **found;
  return *ranks_.emplace_back(std::make_unique<RankModel>(model_.config, model_.formats, plan_, stage));
}

const RankModel& PlanRanks::whole() const { return of({.begin = 0, .end = model_.config.num_hidden_layers}); }

}  // namespace baleen
