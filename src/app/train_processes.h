/// The processes that train one model together, which mpirun or srun started; or one that was started alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "comm/mpi/mpi_communicator.h"
#include "trainer/config/train_config.h"
#include "trainer/ranks/training_ranks.h"

namespace baleen {

class TrainProcesses {
 public:
  /// Throws `Error` where there are others, but no module for Open MPI.
  TrainProcesses();
  TrainProcesses(const TrainProcesses&) = delete;
  TrainProcesses& operator=(const TrainProcesses&) = delete;

  [[nodiscard]] const TrainingRanks& ranks() const { return ranks_; }

  /// Runs `body` in all processes, which then end together. An error in one ends the others, with its
  /// sentence. Throws what `body` throws, and `Error` where a process has another configuration.
  void run(const TrainConfig& config, const std::function<void()>& body);

 private:
  void check_same(const TrainConfig& config) const;

  std::shared_ptr<MpiWorld> world_;
  std::optional<MpiCommunicator> communicator_;
  TrainingRanks ranks_;
};

}  // namespace baleen
