/// Graphs that compute micro-batches at the same time, each on threads of its own.
#pragma once

#include <memory>
#include <vector>

#include "parallel/thread_pool.h"
#include "trainer/config/train_config.h"
#include "trainer/run/loss_function.h"

namespace baleen {

class GraphWorkers {
 public:
  /// As many graphs as the configuration's micro-batches at a time, at most one a thread and one for each of
  /// a step's `num_parts` on this rank; they share `num_threads`. The arguments outlive it.
  GraphWorkers(const TrainConfig& config, const TokenTables& token_tables, std::int64_t num_parts,
               int num_threads);

  [[nodiscard]] std::vector<LossFunction> losses();

 private:
  struct Worker {
    ThreadPool pool;
    TrainingGraph<float> graph;

    Worker(const TrainConfig& config, const TokenTables& token_tables, int num_threads)
        : pool(num_threads), graph(config.model, token_tables, pool) {}
  };

  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace baleen
