#include "trainer/serving/serving_drift.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/progress.h"
#include "engine/engine.h"
#include "sampling/softmax_weights.h"
#include "trainer/run/forward_weights.h"
#include "trainer/run/stored_weights.h"
#include "trainer/run/training_data.h"
#include "trainer/run/training_run.h"
#include "trainer/serving/engine_weights.h"
#include "training_data/batch_sampler.h"

namespace baleen {
namespace {

constexpr std::int64_t kStepTokens = 512;

EngineOptions engine_options(const TrainConfig& config, const ThreadPool& pool) {
  EngineOptions options;
  options.precision = Precision::kReleased;
  options.num_threads = pool.num_threads();
  options.max_batch_tokens = std::min(kStepTokens, config.data.sequence_length);
  options.max_logit_rows = options.max_batch_tokens;
  options.cache_tokens = config.data.sequence_length;
  return options;
}

/// Adds ln p of the targets of one document, in order.
void add_logprobs(Engine& engine, const TrainingBatch& batch, const TrainingBatch::Document& document,
                  std::vector<double>& logprobs) {
  const std::optional<SequenceId> sequence = engine.open({});
  BALEEN_CHECK(sequence.has_value());
  const std::int64_t chunk = engine.options().max_batch_tokens;
  for (std::int64_t begin = document.begin; begin + 1 < document.end; begin += chunk) {
    const std::int64_t count = std::min(chunk, document.end - 1 - begin);
    const StepInput input{
        *sequence,
        std::span(batch.tokens).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
        WantedLogits::kAll};
    const Result<StepOutput> output = engine.step({&input, 1});
    if (!output) fail("{}", output.error());
    for (std::int64_t row = 0; row < count; ++row) {
      const auto next = static_cast<std::size_t>(begin + row + 1);
      if (batch.is_target[next] == 0) continue;
      const std::span<const float> logits = output.value().logits.row(row);
      logprobs.push_back(logits[static_cast<std::size_t>(batch.tokens[next])] -
                         log_sum_exp(logits, logit_extremes(logits).max));
    }
  }
  engine.close(*sequence, false);
}

std::vector<double> trainer_logprobs(TrainingGraph<float>& graph, const Parameters<float>& weights,
                                     const TrainingBatch& batch, const PassOptions& options) {
  std::vector<double> logprobs(static_cast<std::size_t>(batch.num_global_targets));
  MeasuredLogprobs<float> measured(1, logprobs);
  graph.run(weights, batch, options, nullptr, &measured);
  return logprobs;
}

}  // namespace

ServingDrift measure_serving_drift(const TrainConfig& config, const RunState& state,
                                   const TokenTables& token_tables, ThreadPool& pool) {
  const TokenShards shards = open_training_data(config.data.folder, DataSplit::kHeldOut, config.model);
  const BatchSampler sampler(shards, config.data.sequence_length, 1, config.run.seed);
  TrainingGraph<float> graph(config.model, token_tables, pool);
  ForwardWeights weights(config, state, pool);
  const PassOptions options = main_loss_only(pass_options_at(config, state.step));
  Engine engine(engine_weights(config.model, state.weights, token_tables, stored_formats(config.model),
                               config.data.folder, pool),
                engine_options(config, pool));
  const std::int64_t num_rows = std::min(config.evaluation.rows, sampler.num_rows());
  Progress progress("drift", "rows", num_rows);
  ServingDrift drift;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const TrainingBatch batch = sampler.rows_in_order(row, row + 1);
    const std::vector<double> of_trainer = trainer_logprobs(graph, weights.now(), batch, options);
    std::vector<double> of_engine;
    for (const TrainingBatch::Document& document : batch.documents)
      add_logprobs(engine, batch, document, of_engine);
    BALEEN_CHECK_EQ(of_trainer.size(), of_engine.size());
    for (std::size_t i = 0; i < of_trainer.size(); ++i) {
      const double difference = std::fabs(std::exp(of_trainer[i]) - std::exp(of_engine[i]));
      drift.mean_difference += difference;
      drift.max_difference = std::max(drift.max_difference, difference);
      drift.trainer_nats -= of_trainer[i];
      drift.engine_nats -= of_engine[i];
    }
    drift.num_targets += std::ssize(of_trainer);
    progress.update(row + 1);
  }
  const auto num_targets = static_cast<double>(std::max<std::int64_t>(drift.num_targets, 1));
  for (double* sum : {&drift.mean_difference, &drift.trainer_nats, &drift.engine_nats}) *sum /= num_targets;
  return drift;
}

}  // namespace baleen
