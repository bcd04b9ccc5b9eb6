#include "trainer/post/teacher_objective.h"

#include <algorithm>

#include "base/error.h"
#include "model/model_folder.h"
#include "model/weight_binding.h"
#include "trainer/post/policy_group.h"
#include "trainer/run/import.h"
#include "trainer/run/run_inputs.h"

namespace baleen {
namespace {

TrainConfig config_of_teacher(const TrainConfig& student, const std::string& folder) {
  TrainConfig config = student;
  config.run.from = folder;
  config.model = load_config(config.run.from);
  if (config.model.vocab_size != student.model.vocab_size)
    fail("{}: a teacher with {} tokens in its vocabulary, expected the student's {}", folder,
         config.model.vocab_size, student.model.vocab_size);
  return config;
}

/// 1 / (sequences * tokens of the sequence), of each target of a group.
std::vector<double> weights_of_targets(const RolloutGroup& group, std::int64_t num_sequences) {
  std::vector<double> weights;
  for (const Rollout& rollout : group.rollouts) {
    weights.insert(weights.end(), rollout.tokens.size(),
                   1.0 / static_cast<double>(num_sequences * std::ssize(rollout.tokens)));
  }
  return weights;
}

}  // namespace

struct TeacherObjective::Teacher {
  Teacher(const TrainConfig& student, const std::string& folder, ThreadPool& pool)
      : config(config_of_teacher(student, folder)),
        token_tables(token_tables_of(config)),
        weights(config.model),
        head(bind_rows(config.model, weights.table()).head),
        graph(config.model, token_tables, pool) {
    import_weights(config, weights, pool);
  }

  TrainConfig config;
  TokenTables token_tables;
  Parameters<float> weights;
  TensorRow head;
  TrainingGraph<float> graph;
};

TeacherObjective::TeacherObjective(const TrainConfig& config, const TokenTables& token_tables,
                                   std::span<const PolicyPrompt> prompts, ThreadPool& pool)
    : config_(config), graph_(config.model, token_tables, pool) {
  for (const PolicyPrompt& prompt : prompts) {
    const std::vector<std::string>& domains = config.distill.domains;
    if (!domains.empty() && std::ranges::find(domains, prompt.domain) == domains.end())
      fail("{}: a prompt of the domain \"{}\", expected one of distill.domains: {}",
           config.rollout.prompts.string(), prompt.domain, fmt::join(domains, ", "));
  }
  for (const std::string& folder : config.distill.teachers)
    teachers_.push_back(std::make_unique<Teacher>(config, folder, pool));
  for (const std::string& domain : config.distill.domains) names_.push_back("kl." + domain);
}

TeacherObjective::~TeacherObjective() = default;

std::map<std::string, std::string> TeacherObjective::models() const {
  std::map<std::string, std::string> models;
  for (std::size_t i = 0; i < teachers_.size(); ++i)
    models[fmt::format("teacher {}", i + 1)] = weights_checksum(teachers_[i]->weights);
  return models;
}

std::size_t TeacherObjective::teacher_of(const PolicyPrompt& prompt) const {
  if (config_.distill.domains.empty()) return 0;
  return static_cast<std::size_t>(std::ranges::find(config_.distill.domains, prompt.domain) -
                                  config_.distill.domains.begin());
}

ObjectiveReport TeacherObjective::add_gradients(std::span<const RolloutGroup> groups,
                                                const Parameters<float>& weights, const PassOptions& options,
                                                Parameters<float>& gradients) {
  std::int64_t num_sequences = 0;
  for (const RolloutGroup& group : groups) num_sequences += std::ssize(group.rollouts);
  std::vector<double> kl(teachers_.size());
  std::vector<std::int64_t> sequences(teachers_.size());
  for (const RolloutGroup& group : groups) {
    const std::size_t which = teacher_of(*group.prompt);
    Teacher& teacher = *teachers_[which];
    const TrainingBatch batch = rollout_batch(group.prompt->tokens, group.rollouts);
    const std::vector<float> hidden = teacher.graph.head_inputs(teacher.weights, batch, options);
    const std::vector<double> of_targets = weights_of_targets(group, num_sequences);
    ReverseKl<float> objective(hidden, teacher.weights.values(teacher.head).data(),
                               teacher.config.model.hidden_size, config_.model.vocab_size, of_targets);
    kl[which] += graph_.run(weights, batch, options, &gradients, &objective).loss_sum;
    sequences[which] += std::ssize(group.rollouts);
  }
  ObjectiveReport report;
  for (const double value : kl) report.loss += value;
  report.figures.emplace_back("kl", report.loss);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (sequences[i] == 0) continue;
    report.figures.emplace_back(
        names_[i], kl[i] * static_cast<double>(num_sequences) / static_cast<double>(sequences[i]));
  }
  return report;
}

}  // namespace baleen
