/// The loop of a GRPO run: replies of the current policy from an engine in this process, rewards, one update.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/graph/model.h"
#include "trainer/post/prompt_set.h"
#include "trainer/post/rollout.h"
#include "trainer/run/run_checkpoint.h"
#include "trainer/run/run_folder.h"
#include "trainer/run/training_log.h"
#include "trainer/run/training_run.h"
#include "trainer/run/weight_update.h"

namespace baleen {

/// What one step was.
struct PolicyStep {
  std::int64_t step = 0;  ///< steps of the run with this one
  double reward = 0;      ///< mean over the replies
  double ended = 0;       ///< share of the replies with an end token
  double reply_tokens = 0;
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  double drift = 0;             ///< mean absolute difference of token probabilities, engine and trainer
  std::int64_t num_groups = 0;  ///< with a gradient: replies of equal rewards have none, except with beta
  std::int64_t num_masked = 0;  ///< sequences that the mask leaves out
  std::string not_finite;       ///< as of TrainingStep
};

class PolicyRun {
 public:
  /// As TrainingRun; `config.grpo.prompts` and `config.run.from` are there. Throws `Error` for prompts that
  /// cannot be read too.
  PolicyRun(const TrainConfig& config, const RunFolder& folder, const HashTables& hash_tables,
            TrainingRunOptions options, ThreadPool& pool);

  /// As TrainingRun::run: prompts come in the order of the file, again from its beginning at its end.
  void run();

  [[nodiscard]] bool finished() const { return state_.step >= config_.run.steps; }
  [[nodiscard]] const RunState& state() const { return state_; }

 private:
  /// Replies to one prompt.
  struct Group {
    const PolicyPrompt* prompt = nullptr;
    std::vector<Rollout> rollouts;
    std::vector<double> advantages;
  };
  [[nodiscard]] std::vector<Group> sample(PolicyStep& report) const;
  [[nodiscard]] std::vector<double> logprobs(const Parameters<float>& weights, const TrainingBatch& batch);
  void add_gradients(const Group& group, PolicyStep& report);
  PolicyStep do_step();
  void write_checkpoint();

  const TrainConfig& config_;
  const RunFolder& folder_;
  const HashTables& hash_tables_;
  TrainingRunOptions options_;
  ThreadPool& pool_;
  Tokenizer tokenizer_;
  std::vector<PolicyPrompt> prompts_;
  TrainingGraph<float> graph_;
  RunState state_;
  std::int64_t checkpoint_step_;
  WeightUpdate update_;
  Parameters<float> gradients_;
  std::optional<Parameters<float>> reference_;  ///< the weights of run.from, with beta
  TrainingLog log_;
};

}  // namespace baleen
