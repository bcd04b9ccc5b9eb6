// The engine that the options want: one rank, threads of this process, or a rank of several processes.

#include "base/error.h"
#include "comm/hosts.h"
#include "comm/mpi/mpi_communicator.h"
#include "device/make_device.h"
#include "engine/engine.h"
#include "rank_engine/process_team.h"
#include "rank_engine/rank_engine.h"
#include "rank_engine/rank_places.h"
#include "rank_engine/thread_team.h"

namespace baleen {
namespace {

/// The processes that this one was started with; null: it is alone.
std::shared_ptr<MpiWorld> other_processes() { return is_mpi_process() ? open_mpi_world() : nullptr; }

/// Without a plan, as many ranks as there are processes: experts over all of them. On GPUs all processes call
/// this at the same time.
EngineOptions with_ranks(EngineOptions options, const std::shared_ptr<MpiWorld>& world) {
  if (world == nullptr) return options;
  if (options.device.is_cpu()) {
    if (options.parallel.is_one_rank()) options.parallel.num_devices = world->size();
    return options;
  }
  MpiCommunicator communicator(world, options.longest_wait);
  const RankGroup everybody = RankGroup::strided(0, 1, world->size(), world->rank());
  return placed_on_gpus(std::move(options), hosts_of_ranks(communicator, everybody, host_identity()),
                        usable_gpus().gpus);
}

/// What is missing is said before weights are read.
void check_messages(const EngineOptions& options) {
  if (options.messages != GpuMessages::kNccl) return;
  if (const std::string why = why_not_nccl(options.device); !why.empty()) fail("{}", why);
}

std::unique_ptr<ModelEngine> open_engine(const std::shared_ptr<MpiWorld>& world,
                                         std::shared_ptr<const ModelWeights> weights,
                                         const EngineOptions& options) {
  const EngineOptions full = resolved(options, weights->config());
  check_messages(full);
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
  return open_engine(open_model_folder(folder), options);
}

std::unique_ptr<ModelEngine> open_engine(ModelFolder folder, const EngineOptions& options) {
  const std::shared_ptr<MpiWorld> world = other_processes();
  const EngineOptions wanted = with_ranks(options, world);
  // What cannot be is refused before the weights are read.
  const bool places_experts = wanted.expert_table != nullptr || wanted.balance.enabled;
  if (places_experts || !wanted.parallel.is_one_rank()) check_messages(resolved(wanted, folder.config));
  return open_engine(world, std::make_shared<const ModelWeights>(std::move(folder)), wanted);
}

std::unique_ptr<ModelEngine> open_engine(std::shared_ptr<const ModelWeights> weights,
                                         const EngineOptions& options) {
  const std::shared_ptr<MpiWorld> world = other_processes();
  return open_engine(world, std::move(weights), with_ranks(options, world));
}

}  // namespace baleen
