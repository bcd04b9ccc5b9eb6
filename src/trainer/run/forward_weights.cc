#include "trainer/run/forward_weights.h"

#include "trainer/optimiser/schedule.h"
#include "trainer/run/stored_weights.h"

namespace baleen {

const Parameters<float>& ForwardWeights::now() {
  if (!rounds_at(config_, state_.step)) return state_.weights;
  if (!stored_) stored_.emplace(state_.weights.table());
  if (stored_step_ != state_.step)
    round_to_stored(state_.weights, stored_formats(config_.model), *stored_, pool_);
  stored_step_ = state_.step;
  return *stored_;
}

}  // namespace baleen
