#include "trainer/run/graph_workers.h"

#include <algorithm>

namespace baleen {

GraphWorkers::GraphWorkers(const TrainConfig& config, const TokenTables& token_tables, std::int64_t num_parts,
                           int num_threads) {
  const auto num_workers = static_cast<int>(
      std::min({config.run.concurrent_micro_batches, num_parts, static_cast<std::int64_t>(num_threads)}));
  for (int i = 0; i < num_workers; ++i) {
    const int threads = num_threads / num_workers + (i < num_threads % num_workers ? 1 : 0);
    workers_.push_back(std::make_unique<Worker>(config, token_tables, threads));
  }
}

std::vector<LossFunction> GraphWorkers::losses() {
  std::vector<LossFunction> losses;
  for (const std::unique_ptr<Worker>& worker : workers_) {
    losses.push_back([&graph = worker->graph](const Parameters<float>& weights, const TrainingBatch& batch,
                                              const PassOptions& pass, Parameters<float>* gradients) {
      return graph.run(weights, batch, pass, gradients);
    });
  }
  return losses;
}

}  // namespace baleen
