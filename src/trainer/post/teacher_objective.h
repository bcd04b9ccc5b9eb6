/// On-policy distillation: on replies of the model in training, its distribution of each token is drawn to
/// that of the teacher for the prompt's domain, by reverse KL over the whole vocabulary. (source: training
/// 14)
#pragma once

#include <memory>

#include "trainer/graph/model.h"
#include "trainer/post/rollout_objective.h"

namespace baleen {

class TeacherObjective final : public RolloutObjective {
 public:
  /// All arguments outlive it. Holds the weights of all teachers in float32. Throws `Error`: a teacher that
  /// cannot be read or has another vocabulary, a prompt whose domain no teacher has.
  TeacherObjective(const TrainConfig& config, const TokenTables& token_tables,
                   std::span<const PolicyPrompt> prompts, ThreadPool& pool);
  ~TeacherObjective() override;

  /// The loss is the mean KL in nats a token, each sequence counting the same; figures: kl, and kl.DOMAIN of
  /// each teacher that had a prompt.
  ObjectiveReport add_gradients(std::span<const RolloutGroup> groups, const Parameters<float>& weights,
                                const PassOptions& options, Parameters<float>& gradients) override;
  [[nodiscard]] std::map<std::string, std::string> models() const override;

 private:
  struct Teacher;
  [[nodiscard]] std::size_t teacher_of(const PolicyPrompt& prompt) const;

  const TrainConfig& config_;
  TrainingGraph<float> graph_;  ///< the student's
  std::vector<std::unique_ptr<Teacher>> teachers_;
  std::vector<std::string> names_;  ///< what their figures are called
};

}  // namespace baleen
