#include "trainer/post/policy_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "engine/engine.h"
#include "log/log.h"
#include "model/found_prompt_profile.h"
#include "model_files/random.h"
#include "trainer/optimiser/schedule.h"
#include "trainer/post/reward_objective.h"
#include "trainer/post/teacher_objective.h"
#include "trainer/run/stored_weights.h"
#include "trainer/serving/engine_weights.h"

namespace baleen {
namespace {

using Clock = std::chrono::steady_clock;

EngineOptions engine_options(const TrainConfig& config, std::int64_t step, const ThreadPool& pool) {
  const RolloutConfig& rollout = config.rollout;
  constexpr std::int64_t kPage = 256;
  const std::int64_t context = (rollout.prompt_tokens + rollout.max_tokens + kPage - 1) / kPage * kPage;
  EngineOptions options;
  options.precision = rounds_at(config, step) ? Precision::kReleased : Precision::kExact;
  options.num_threads = pool.num_threads();
  options.max_batch_tokens = std::max<std::int64_t>(options.max_batch_tokens, rollout.group_size);
  options.max_sequences = rollout.group_size;
  options.cache_tokens = (rollout.group_size + 1) * context;
  options.prefix_cache = true;
  return options;
}

/// The MTP blocks do not run, and layers with a ratio rotate as inference does.
PassOptions pass_options(const TrainConfig& config, std::int64_t step) {
  return {.mtp_weight = 0,
          .recompute = config.run.recompute,
          .rounds_as_released = rounds_at(config, step),
          .bf16_products = config.bf16_products(),
          .scaled_rope = true};
}

nlohmann::ordered_json line_of(const PolicyStep& report, double seconds) {
  nlohmann::ordered_json line{{"step", report.step}};
  for (const auto& [name, value] : report.objective.figures) line[std::string(name)] = value;
  line.update(nlohmann::ordered_json{{"ended", report.ended},
                                     {"reply_tokens", report.reply_tokens},
                                     {"loss", report.objective.loss},
                                     {"gradient_norm", report.gradient_norm},
                                     {"learning_rate", report.learning_rate},
                                     {"seconds", seconds}});
  if (!report.not_finite.empty()) line["skipped"] = report.not_finite;
  return line;
}

std::unique_ptr<RolloutObjective> make_objective(const TrainConfig& config, const TokenTables& token_tables,
                                                 const Tokenizer& tokenizer,
                                                 std::span<const PolicyPrompt> prompts, ThreadPool& pool) {
  if (!config.distill.teachers.empty())
    return std::make_unique<TeacherObjective>(config, token_tables, prompts, pool);
  return std::make_unique<RewardObjective>(config, token_tables, tokenizer, pool);
}

}  // namespace

PolicyRun::PolicyRun(const TrainConfig& config, const RunFolder& folder, const TokenTables& token_tables,
                     TrainingRunOptions options, ThreadPool& pool)
    : config_(config),
      folder_(folder),
      token_tables_(token_tables),
      options_(std::move(options)),
      pool_(pool),
      tokenizer_(Tokenizer::load(config.run.from)),
      prompts_(read_prompts(config.rollout.prompts, tokenizer_,
                            find_prompt_profile(config.run.from).profile.value, config.rollout.prompt_tokens,
                            config.distill.teachers.empty())),
      objective_(make_objective(config, token_tables, tokenizer_, prompts_, pool)),
      state_(config),
      checkpoint_step_(start()),
      update_(config, state_, pool),
      forward_weights_(config, state_, pool),
      gradients_(config.model),
      log_(folder.log(), state_.step, state_.log) {}

std::int64_t PolicyRun::start() {
  if (!config_.sft.folder.empty()) supervised_.emplace(config_, token_tables_, pool_);
  state_.inputs = exported_inputs(config_);
  std::error_code ignored;
  if (std::filesystem::is_regular_file(config_.rollout.prompts, ignored))
    state_.inputs["prompts"]["rollout.prompts"] = checksum_of(MappedFile(config_.rollout.prompts).bytes());
  state_.inputs["models"] = objective_->models();
  if (supervised_) state_.inputs["data"] = supervised_->data();
  return start_state(config_, folder_, options_.resume, state_, pool_);
}

std::vector<RolloutGroup> PolicyRun::sample(PolicyStep& report) const {
  const bool rounds = rounds_at(config_, state_.step);
  Engine engine(
      engine_weights(config_.model, state_.weights, token_tables_,
                     rounds ? stored_formats(config_.model) : kBf16Formats, config_.data.folder, pool_),
      engine_options(config_, state_.step, pool_));
  const CounterRandom random(config_.run.seed, "rollouts");
  const RolloutConfig& rollouts = config_.rollout;
  const std::int64_t first = state_.step * rollouts.prompts_per_step;
  const auto num_replies = static_cast<double>(rollouts.prompts_per_step * rollouts.group_size);
  std::vector<RolloutGroup> groups;
  for (std::int64_t at = first; at < first + rollouts.prompts_per_step; ++at) {
    const PolicyPrompt& prompt = prompts_[static_cast<std::size_t>(at) % prompts_.size()];
    groups.push_back({&prompt, sample_group(engine, rollouts, prompt.tokens,
                                            static_cast<TokenId>(config_.model.eos_token_id),
                                            random.bits(static_cast<std::uint64_t>(at)))});
    for (const Rollout& rollout : groups.back().rollouts) {
      report.ended += (rollout.ended ? 1 : 0) / num_replies;
      report.reply_tokens += static_cast<double>(rollout.tokens.size()) / num_replies;
    }
  }
  return groups;
}

PolicyStep PolicyRun::do_step() {
  PolicyStep report;
  report.learning_rate = learning_rate_at(config_, state_.step);
  const std::vector<RolloutGroup> groups = sample(report);
  gradients_.set_zero();
  report.objective = objective_->add_gradients(groups, forward_weights_.now(),
                                               pass_options(config_, state_.step), gradients_);
  if (supervised_) {
    const double loss = supervised_->add_gradients(state_.step, forward_weights_.now(),
                                                   pass_options(config_, state_.step), gradients_);
    report.objective.loss += config_.sft.weight * loss;
    report.objective.figures.emplace_back("sft_loss", loss);
  }
  const GradientNorms norms = update_.prepare(gradients_);
  report.gradient_norm = norms.trunk;
  report.not_finite = norms.not_finite;
  if (report.not_finite.empty() && !std::isfinite(report.objective.loss)) report.not_finite = "the loss";
  report.step = ++state_.step;
  if (report.not_finite.empty()) {
    state_.skipped_in_row = 0;
    update_.apply(norms, report.learning_rate);
  } else {
    ++state_.skipped_in_row;
  }
  return report;
}

void PolicyRun::write_checkpoint() {
  state_.log = log_.mark();
  write_run_checkpoint(folder_.checkpoint(state_.step), config_, state_);
  folder_.remove_old_checkpoints(config_.checkpoint.keep);
  checkpoint_step_ = state_.step;
}

void PolicyRun::run() {
  const std::int64_t end =
      options_.stop_step == 0 ? config_.run.steps : std::min(options_.stop_step, config_.run.steps);
  const std::int64_t begin = state_.step;
  Progress progress("training", "steps", end - begin);
  while (state_.step < end) {
    const Clock::time_point start = Clock::now();
    const PolicyStep report = do_step();
    log_.write(line_of(report, std::chrono::duration<double>(Clock::now() - start).count()));
    progress.update(state_.step - begin,
                    fmt::format("step {}: {} {:.3f}, {:.0f} tokens a reply", report.step,
                                report.objective.figures.front().first,
                                report.objective.figures.front().second, report.reply_tokens));
    if (!report.not_finite.empty())
      log_line("step {}: skipped: {} is not finite", report.step, report.not_finite);
    if (state_.skipped_in_row >= kMaxSkippedInRow)
      fail("step {}: {} is not finite, the third step in a row; try a lower schedule.learning_rate",
           report.step, report.not_finite);
    if (state_.step % config_.checkpoint.interval == 0) write_checkpoint();
    if (options_.interrupted && options_.interrupted()) break;
  }
  if (checkpoint_step_ != state_.step) write_checkpoint();
}

}  // namespace baleen
