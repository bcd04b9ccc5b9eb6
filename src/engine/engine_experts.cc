// Which experts lie on the GPU, by how much they are used: between steps, without a change of any output.

#include "engine/engine.h"

namespace baleen {

namespace {

// A swap takes half a millisecond (a block of 13 MB each way); reading the counts waits for the steps that
// are under way.
constexpr std::int64_t kStepsBetweenPlacements = 16;
constexpr std::int64_t kMaxSwaps = 16;

}  // namespace

void Engine::improve_placement() {
  ExpertStore* store = experts();
  if (store == nullptr || ++steps_since_placement_ < kStepsBetweenPlacements) return;
  steps_since_placement_ = 0;
  expert_use_.update(forward_.expert_load());
  for (const ExpertSwap& swap : store->placement().improvements(expert_use_.recent(), kMaxSwaps))
    store->swap(swap);
}

}  // namespace baleen
