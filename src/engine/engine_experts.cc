// Which experts lie on the GPU, by how much they are used: between steps, without a change of any output.

#include <algorithm>
#include <utility>

#include "base/lost_maps.h"
#include "engine/engine.h"

namespace baleen {

namespace {

// A swap takes half a millisecond (a block of 13 MB each way); reading the counts waits for the steps that
// are under way.
constexpr std::int64_t kStepsBetweenPlacements = 16;

/// More where more experts are away: their steps are longer, and more of them have to find their place.
std::int64_t most_swaps(const ExpertCounts& counts) {
  constexpr std::int64_t kLeast = 16, kAwayOfASwap = 128;
  return std::max(kLeast, counts.num_away() / kAwayOfASwap);
}

}  // namespace

void Engine::improve_placement() {
  ExpertStore* store = experts();
  if (store == nullptr || ++steps_since_placement_ < kStepsBetweenPlacements) return;
  steps_since_placement_ = 0;
  expert_use_.update(own_load());
  const ExpertPlacement& placement = store->placement();
  for (const ExpertSwap& swap : placement.improvements(expert_use_.recent(), most_swaps(placement.counts())))
    store->swap(swap);
}

std::vector<std::vector<std::int64_t>> Engine::own_load() const {
  std::vector<std::vector<std::int64_t>> load = forward_.expert_load();
  if (rank_.is_alone()) return load;
  for (std::size_t block = 0; block < load.size(); ++block) {
    const MoeWeights& moe = rank_weights_->tree().blocks[block].moe;
    const ExpertRanks placement = rank_.layout.experts(moe.map.get());
    std::vector<std::int64_t> own;
    for (std::int64_t local = 0; local < std::ssize(moe.routed); ++local)
      own.push_back(load[block][static_cast<std::size_t>(placement.logical(local))]);
    load[block] = std::move(own);
  }
  return load;
}

std::optional<ExpertPlaceStats> Engine::expert_places() const {
  const ExpertStore* store = experts();
  if (store == nullptr) return std::nullopt;
  return ExpertPlaceStats{store->placement().counts(), store->counts()};
}

void Engine::check_reads() const {
  check_maps();
  if (const ExpertStore* store = experts()) store->check();
}

}  // namespace baleen
