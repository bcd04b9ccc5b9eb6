#include "app/train_processes.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace baleen {
namespace {

/// For a step, an evaluation or a checkpoint of another process.
constexpr std::chrono::minutes kLongestWait{60};

}  // namespace

TrainProcesses::TrainProcesses() {
  if (!is_mpi_process()) return;
  world_ = open_mpi_world();
  communicator_.emplace(world_, kLongestWait);
  ranks_ = TrainingRanks(*communicator_, RankGroup::strided(0, 1, world_->size(), world_->rank()));
}

void TrainProcesses::check_same(const TrainConfig& config) const {
  std::vector<double> hashes(static_cast<std::size_t>(ranks_.size()));
  // 53 bits, which a double holds.
  hashes[static_cast<std::size_t>(ranks_.rank())] =
      static_cast<double>(std::hash<std::string>{}(canonical_text(config)) >> 11);
  ranks_.gather(ranks_.size(), hashes);
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes.front()) continue;
    fail("process {} has another configuration than process 0; start all with the same file and options",
         rank);
  }
}

void TrainProcesses::run(const TrainConfig& config, const std::function<void()>& body) {
  try {
    check_same(config);
    body();
    if (world_) world_->finalize();
  } catch (const std::exception& error) {
    if (communicator_) communicator_->stop_others(fmt::format("process {}: {}", ranks_.rank(), error.what()));
    throw;
  }
}

}  // namespace baleen
