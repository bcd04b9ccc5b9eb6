/// The loop of a training run: batch, loss and gradients, clipping, update, balancing; evaluations,
/// checkpoints, the log.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/ranks/training_ranks.h"
#include "trainer/run/continuation.h"
#include "trainer/run/evaluation.h"
#include "trainer/run/forward_weights.h"
#include "trainer/run/micro_batches.h"
#include "trainer/run/model_flops.h"
#include "trainer/run/run_checkpoint.h"
#include "trainer/run/run_folder.h"
#include "trainer/run/training_log.h"
#include "trainer/run/weight_update.h"
#include "training_data/batch_sampler.h"

namespace baleen {

struct TrainingRunOptions {
  bool resume = false;  ///< continue from the newest checkpoint
  std::int64_t stop_step =
      0;  ///< end after so many steps of the run, with a checkpoint; 0: after all of them
  std::function<bool()> interrupted = {};  ///< asked after each step; true ends the run with a checkpoint
  LogitsFunction logits = {};              ///< for evaluation.prompts; without it they are not continued
  TrainingRanks ranks = {};                ///< what it names outlives the run
  double fma_flops_per_second = 0;         ///< the machine's measured peak; 0: unknown, no share is given
  /// What a step with these passes should take; asked again when they change. Without it nothing is said.
  std::function<double(const PassOptions&)> predicted_seconds = {};
};

/// What one step was.
struct TrainingStep {
  std::int64_t step = 0;  ///< steps of the run with this one
  double loss = 0;        ///< nats a target, of the main model
  double mtp_loss = 0;
  std::optional<double> indexer_loss;  ///< mean over tokens, sum over layers; empty: not in this step
  std::optional<double> balance_loss;  ///< mean over documents, sum over layers; the same
  double gradient_norm = 0;            ///< before clipping, without the indexers
  double indexer_gradient_norm = 0;    ///< theirs
  double learning_rate = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_left = 0;  ///< matrices without a gradient, left as they are
  double flops = 0;           ///< what the model computes, forward and backward (model_flops.h)
  /// [num_blocks][E] tokens that chose each expert, over the whole batch.
  std::vector<std::vector<std::int64_t>> expert_load;
  double max_violation = 0;  ///< violation of the layer whose experts are used least evenly
  std::string not_finite;    ///< what was infinite or NaN, for which the step was skipped; else empty

  [[nodiscard]] double all_losses() const {
    return loss + mtp_loss + indexer_loss.value_or(0) + balance_loss.value_or(0);
  }
};

/// Of the steps of a process, beside what was predicted for them.
struct StepSeconds {
  std::int64_t num_steps = 0;
  double measured = 0;
  double predicted = 0;  ///< 0: nothing was
};

/// Throws `Error` for what this trainer does not have: adapters of plain residuals; on several ranks
/// adapters, replies, and fewer micro-batches than ranks.
void check_supported(const TrainConfig& config, std::int64_t num_ranks = 1);

/// Of the passes of a step, and of an evaluation before it.
[[nodiscard]] PassOptions pass_options_at(const TrainConfig& config, std::int64_t step);

/// So many steps in a row without a finite loss or gradient end a run.
inline constexpr std::int64_t kMaxSkippedInRow = 3;

class TrainingRun {
 public:
  /// First weights, new or from `config.run.from`, or with `resume` the newest checkpoint. All arguments
  /// outlive it. Of several ranks all have the same configuration and read the same files. Throws `Error`: no
  /// or bad data, data of a larger vocabulary than the model's, checkpoints in the folder without `resume` or
  /// none with it, another configuration than the checkpoint's.
  TrainingRun(const TrainConfig& config, const RunFolder& folder, std::vector<LossFunction> losses,
              TrainingRunOptions options, ThreadPool& pool);

  /// Steps until the end, `stop_step` or an interruption on any rank; a checkpoint is on disk when it returns
  /// on the first rank. The weights are the same whatever the threads and however often the run was stopped
  /// and resumed, and for any number of ranks with equally many micro-batches, a power of two. Throws
  /// `Error` after three skipped steps in a row, and when the disk is full; the last checkpoint is then as
  /// it was.
  void run();

  /// Whether all steps of the configuration are done.
  [[nodiscard]] bool finished() const { return state_.step >= config_.run.steps; }
  [[nodiscard]] const RunState& state() const { return state_; }
  /// Sums over the steps of `run`.
  [[nodiscard]] const StepSeconds& seconds() const { return seconds_; }

 private:
  TrainingStep do_step();
  /// Of the step that follows `state_.step`; 0: unknown.
  [[nodiscard]] double predicted_seconds();
  /// What a step reports of one micro-batch, as numbers that ranks exchange.
  [[nodiscard]] std::vector<double> figures_of(const PassOptions& options, const TrainingBatch& batch,
                                               const LossReport& pass) const;
  [[nodiscard]] std::size_t num_figures() const;
  void add_figures(TrainingStep& report, const PassOptions& options, std::span<const double> figures) const;
  /// Sets the violation of even loads, and where it `moves` them the routers' biases.
  void balance(TrainingStep& report, bool moves);
  [[nodiscard]] std::string note_of(const TrainingStep& report, double seconds) const;
  void write_log(const TrainingStep& report, double seconds, double predicted);
  void evaluate_and_log();
  void write_checkpoint();
  /// Opens held-out data, says what the run reads, and sets `state_`. Returns the newest checkpoint's step.
  std::int64_t start(bool resume);

  const TrainConfig& config_;
  const RunFolder& folder_;
  MicroBatches micro_batches_;
  TrainingRunOptions options_;
  const TrainingRanks& ranks_;  ///< those of the options
  ThreadPool& pool_;
  TokenShards shards_;
  BatchSampler sampler_;
  std::optional<TokenShards> held_out_shards_;
  std::optional<BatchSampler> held_out_;
  Continuations continuations_;
  ModelFlops flops_;
  RunState state_;
  std::int64_t checkpoint_step_;  ///< step of the newest checkpoint; -1: there is none
  WeightUpdate update_;
  ForwardWeights forward_weights_;
  Parameters<float> gradients_;
  std::unique_ptr<TrainingLog> log_;  ///< set on the first rank
  StepSeconds seconds_;
  std::optional<PassOptions> predicted_passes_;  ///< that `predicted_` is of
  double predicted_ = 0;
};

}  // namespace baleen
