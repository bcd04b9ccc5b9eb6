// What an engine does because it is a rank among others.

#include <new>

#include "base/check.h"
#include "engine/engine.h"
#include "ops/collectives/all_gather.h"

namespace baleen {

ConstActivations<3> Engine::all_rows(ConstActivations<3> kept, std::int64_t num_rows) {
  if (!rank_.layout.plan().shares_rows()) return kept;
  const std::vector<RowRange> rows = rank_.layout.kept_rows(num_rows);
  const Activations<2> all = all_streams_.slice(0, num_rows);
  device_->execute<ops::AllGather>({.group = &rank_.layout.group(), .x = flat(kept), .rows = rows, .y = all});
  return stacked(all);
}

void Engine::meet() const {
  const RankGroup all = RankGroup::strided(0, 1, rank_.layout.plan().num_devices, rank_.layout.rank());
  const std::vector<std::byte> sent(1);
  std::vector<std::byte> received(static_cast<std::size_t>(all.size()));
  const std::vector<std::span<const std::byte>> send(received.size(), sent);
  std::vector<std::span<std::byte>> receive;
  receive.reserve(received.size());
  for (std::byte& one : received) receive.emplace_back(&one, 1);
  rank_.communicator->exchange(all, send, receive);
}

std::optional<Failure> Engine::stage_experts(std::span<const BlockExperts> experts) {
  BALEEN_CHECK(rank_weights_ != nullptr && device_weights_ == nullptr);
  try {
    for (const BlockExperts& one : experts) rank_weights_->stage(one);
    return std::nullopt;
  } catch (const Error& error) {
    rank_weights_->drop_staged();
    return Failure{error.what()};
  } catch (const std::bad_alloc&) {
    rank_weights_->drop_staged();
    return failure("rank {} has no memory for other experts", rank_.layout.rank());
  }
}

}  // namespace baleen
