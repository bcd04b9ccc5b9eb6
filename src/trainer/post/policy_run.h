/// The loop of a run on replies of the current policy, from an engine in this process: GRPO or distillation.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/post/prompt_set.h"
#include "trainer/post/rollout_objective.h"
#include "trainer/post/supervised_part.h"
#include "trainer/run/run_checkpoint.h"
#include "trainer/run/run_folder.h"
#include "trainer/run/training_log.h"
#include "trainer/run/training_run.h"
#include "trainer/run/weight_update.h"

namespace baleen {

/// What one step was.
struct PolicyStep {
  std::int64_t step = 0;  ///< steps of the run with this one
  ObjectiveReport objective;
  double ended = 0;  ///< share of the replies with an end token
  double reply_tokens = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  std::string not_finite;  ///< as of TrainingStep
};

class PolicyRun {
 public:
  /// As TrainingRun; `config.rollout.prompts` and `config.run.from` are there. Throws `Error` for prompts
  /// that cannot be read too.
  PolicyRun(const TrainConfig& config, const RunFolder& folder, const TokenTables& token_tables,
            TrainingRunOptions options, ThreadPool& pool);

  /// As TrainingRun::run: prompts come in the order of the file, again from its beginning at its end.
  void run();

  [[nodiscard]] bool finished() const { return state_.step >= config_.run.steps; }
  [[nodiscard]] const RunState& state() const { return state_; }

 private:
  [[nodiscard]] std::vector<RolloutGroup> sample(PolicyStep& report) const;
  PolicyStep do_step();
  void write_checkpoint();
  /// Opens packed data, says what the run reads, and sets `state_`. Returns the newest checkpoint's step.
  std::int64_t start();

  const TrainConfig& config_;
  const RunFolder& folder_;
  const TokenTables& token_tables_;
  TrainingRunOptions options_;
  ThreadPool& pool_;
  Tokenizer tokenizer_;
  std::vector<PolicyPrompt> prompts_;
  std::unique_ptr<RolloutObjective> objective_;
  std::optional<SupervisedPart> supervised_;
  RunState state_;
  std::int64_t checkpoint_step_;
  WeightUpdate update_;
  ForwardWeights forward_weights_;
  Parameters<float> gradients_;
  TrainingLog log_;
};

}  // namespace baleen
