// What an engine does because it is a rank among others.

#include <new>

#include "base/check.h"
#include "comm/meet.h"
#include "engine/engine.h"

namespace baleen {

ConstActivations<3> Engine::all_rows(ConstActivations<3> kept) {
  if (!rank_.layout.plan().shares_rows()) return kept;
  const ModelConfig& c = config();
  return forward_.gathered(kept,
                           all_streams_.reshaped<3>({all_streams_.extent(0), c.hc_mult, c.hidden_size}));
}

void Engine::meet() const {
  meet_all(*rank_.communicator,
           RankGroup::strided(0, 1, rank_.layout.plan().num_devices, rank_.layout.rank()));
}

std::optional<Failure> Engine::stage_experts(std::span<const BlockExperts> experts) {
  BALEEN_CHECK(rank_weights_ != nullptr && (device_weights_ == nullptr || experts.size() <= 1));
  try {
    for (const BlockExperts& one : experts) rank_weights_->stage(one);
    if (staged_experts_) {
      for (const ExpertChange& change : rank_weights_->staged()) staged_experts_->stage(change);
    }
    return std::nullopt;
  } catch (const Error& error) {
    rank_weights_->drop_staged();
    return Failure{error.what()};
  } catch (const std::bad_alloc&) {
    rank_weights_->drop_staged();
    return failure("rank {} has no memory for other experts", rank_.layout.rank());
  }
}

void Engine::place_experts() {
  if (staged_experts_) staged_experts_->place();
  rank_weights_->place_staged();
}

void Engine::drop_experts() {
  if (staged_experts_) staged_experts_->drop();
  rank_weights_->drop_staged();
}

}  // namespace baleen
