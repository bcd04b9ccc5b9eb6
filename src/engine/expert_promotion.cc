#include "engine/expert_promotion.h"

#include <algorithm>

namespace baleen {

namespace {

// A swap takes half a millisecond (a block of 13 MB each way); reading the counts waits for the steps that
// are under way.
constexpr std::int64_t kStepsBetweenChanges = 16;

/// More where more experts are away: their steps are longer, and more of them have to find their place.
std::int64_t most_swaps(const ExpertCounts& counts) {
  constexpr std::int64_t kLeast = 16, kAwayOfASwap = 128;
  return std::max(kLeast, counts.num_away() / kAwayOfASwap);
}

}  // namespace

void ExpertPromotion::before_step() {
  if (store_ == nullptr || ++steps_since_change_ < kStepsBetweenChanges) return;
  steps_since_change_ = 0;
  use_.update(pass_.own_expert_load());
  const ExpertPlacement& placement = store_->placement();
  for (const ExpertSwap& swap : placement.improvements(use_.recent(), most_swaps(placement.counts())))
    store_->swap(swap);
}

}  // namespace baleen
