// The engine that the options want: one rank, threads of this process, or a rank of several processes.

#include "base/error.h"
#include "device/make_device.h"
#include "rank_engine/process_team.h"
#include "rank_engine/rank_engine.h"
#include "rank_engine/thread_team.h"

namespace baleen {
namespace {

/// The processes that this one was started with; null: it is alone.
std::shared_ptr<MpiWorld> other_processes() { return is_mpi_process() ? open_mpi_world() : nullptr; }

/// Without a plan, as many ranks as there are processes: experts over all of them. Without a list of GPUs, a
/// GPU for each, from the first on. Throws where there are too few.
EngineOptions with_ranks(EngineOptions options, const MpiWorld* world) {
  if (world == nullptr) return options;
  if (options.parallel.is_one_rank()) options.parallel.num_devices = world->size();
  if (options.device.kind == DeviceKind::kCuda && options.rank_devices.empty()) {
    options.rank_devices = usable_gpus().gpus;
    if (std::ssize(options.rank_devices) < world->size()) {
      fail(
          "{} processes were started, and there are {} GPUs that reach each other: each rank needs one of "
          "its "
          "own; start fewer processes, or give --device cpu",
          world->size(), options.rank_devices.size());
    }
    options.rank_devices.resize(static_cast<std::size_t>(world->size()));
  }
  return options;
}

std::unique_ptr<ModelEngine> open_engine(const std::shared_ptr<MpiWorld>& world,
                                         std::shared_ptr<const ModelWeights> weights,
                                         const EngineOptions& options) {
  const EngineOptions full = resolved(options, weights->config());
  if (world == nullptr && full.parallel.is_one_rank())
    return std::make_unique<Engine>(std::move(weights), options);
  if (world != nullptr && world->rank() > 0) ProcessTeam::follow(world, std::move(weights), full);
  std::unique_ptr<RankTeam> team;
  if (world != nullptr) {
    team = std::make_unique<ProcessTeam>(world, std::move(weights), full);
  } else {
    team = std::make_unique<ThreadTeam>(std::move(weights), full);
  }
  return std::make_unique<RankEngine>(std::move(team), full);
}

}  // namespace

std::unique_ptr<ModelEngine> open_engine(const std::filesystem::path& folder, const EngineOptions& options) {
  const std::shared_ptr<MpiWorld> world = other_processes();
  const EngineOptions wanted = with_ranks(options, world.get());
  // What cannot be is refused before the weights are read.
  const bool places_experts = wanted.expert_table != nullptr || wanted.balance.enabled;
  if (places_experts || !wanted.parallel.is_one_rank())
    static_cast<void>(resolved(wanted, load_config(folder)));
  return open_engine(world, std::make_shared<const ModelWeights>(folder), wanted);
}

std::unique_ptr<ModelEngine> open_engine(std::shared_ptr<const ModelWeights> weights,
                                         const EngineOptions& options) {
  const std::shared_ptr<MpiWorld> world = other_processes();
  return open_engine(world, std::move(weights), with_ranks(options, world.get()));
}

}  // namespace baleen
