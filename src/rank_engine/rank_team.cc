#include "rank_engine/rank_team.h"

#include <algorithm>

namespace baleen {

RankLayout layout_of_rank(const ModelConfig& config, const ParallelPlan& plan, std::int64_t rank) {
  const std::int64_t stage = rank / plan.stage_ranks();
  return {config, plan, stage_of(config, plan, stage), stage, rank % plan.stage_ranks()};
}

EngineOptions options_of_rank(const EngineOptions& options, std::int64_t num_ranks, std::int64_t rank) {
  EngineOptions own = options;
  const std::int64_t threads = options.num_threads / num_ranks + (rank < options.num_threads % num_ranks);
  if (!options.rank_devices.empty()) own.device = options.rank_devices[static_cast<std::size_t>(rank)];
  own.num_threads = static_cast<int>(std::max<std::int64_t>(1, threads));
  return own;
}

std::string_view messages_text(const EngineOptions& options) {
  switch (options.messages) {
    case GpuMessages::kNccl:
      return ", messages by NCCL";
    case GpuMessages::kHostMemory:
      return ", messages through the host's memory";
    case GpuMessages::kAutomatic:
    case GpuMessages::kPeerMemory:
      break;
  }
  return "";
}

}  // namespace baleen
