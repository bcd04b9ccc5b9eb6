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

void ExpertPromotion::before_step(std::int64_t num_rows) {
  if (store_ == nullptr) return;
  const bool keeps_buffers = !store_->copies_for(num_rows);
  if (keeps_buffers) {
    store_->make_room(num_rows);
    most_rows_ = std::max(most_rows_, num_rows);
  }
  const bool is_due = ++steps_since_change_ >= kStepsBetweenChanges;
  if (is_due) exchange();
  if (keeps_buffers) {
    // A step of many tokens has taken all buffers, and copied more than it takes to fill them again.
    const bool is_empty = store_->cached().empty();
    if (is_empty) cache(store_->cached().num_places());
    if (is_due && !is_empty) cache(most_swaps(store_->placement().counts()));
  }
  if (is_due) steps_since_change_ = most_rows_ = 0;
}

void ExpertPromotion::exchange() {
  use_.update(pass_.own_expert_load());
  const ExpertPlacement& placement = store_->placement();
  for (const ExpertSwap& swap : placement.improvements(use_.recent(), most_swaps(placement.counts())))
    store_->swap(swap);
}

void ExpertPromotion::cache(std::int64_t most) {
  const ExpertCounts& counts = store_->placement().counts();
  if (counts.most_cached(most_rows_) == 0) return;
  const std::int64_t first = counts.num_buffer_places_for(most_rows_);
  store_->cache(store_->cached().improvements(store_->placement(), use_.recent(), first, most));
}

}  // namespace baleen
