#include "trainer/post/policy_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "engine/engine.h"
#include "log/log.h"
#include "model_files/random.h"
#include "trainer/optimiser/schedule.h"
#include "trainer/post/policy_group.h"
#include "trainer/post/policy_weights.h"
#include "trainer/run/import.h"

namespace baleen {
namespace {

using Clock = std::chrono::steady_clock;

EngineOptions engine_options(const TrainConfig& config, const ThreadPool& pool) {
  const GrpoConfig& grpo = config.grpo;
  constexpr std::int64_t kPage = 256;
  const std::int64_t context = (grpo.prompt_tokens + grpo.max_tokens + kPage - 1) / kPage * kPage;
  EngineOptions options;
  options.precision = Precision::kExact;
  options.num_threads = pool.num_threads();
  options.max_batch_tokens = std::max<std::int64_t>(options.max_batch_tokens, grpo.group_size);
  options.max_sequences = grpo.group_size;
  options.cache_tokens = (grpo.group_size + 1) * context;
  options.prefix_cache = true;
  return options;
}

PassOptions pass_options(const TrainConfig& config) {
  return {.mtp_weight = 0, .recompute = config.run.recompute, .scaled_rope = true};
}

nlohmann::ordered_json line_of(const PolicyStep& report, double seconds) {
  nlohmann::ordered_json line{{"step", report.step},
                              {"reward", report.reward},
                              {"ended", report.ended},
                              {"reply_tokens", report.reply_tokens},
                              {"loss", report.loss},
                              {"gradient_norm", report.gradient_norm},
                              {"learning_rate", report.learning_rate},
                              {"probability_drift", report.drift},
                              {"groups_with_gradient", report.num_groups},
                              {"masked_sequences", report.num_masked},
                              {"seconds", seconds}};
  if (!report.not_finite.empty()) line["skipped"] = report.not_finite;
  return line;
}

}  // namespace

PolicyRun::PolicyRun(const TrainConfig& config, const RunFolder& folder, const HashTables& hash_tables,
                     TrainingRunOptions options, ThreadPool& pool)
    : config_(config),
      folder_(folder),
      hash_tables_(hash_tables),
      options_(std::move(options)),
      pool_(pool),
      tokenizer_(Tokenizer::load(config.run.from)),
      prompts_(read_prompts(config.grpo.prompts, tokenizer_, config.grpo.prompt_tokens)),
      graph_(config.model, hash_tables, pool),
      state_(config),
      checkpoint_step_(start_state(config, folder, options_.resume, state_, pool)),
      update_(config, state_, pool),
      gradients_(config.model),
      log_(folder.log(), state_.step) {
  if (config.grpo.beta == 0) return;
  reference_.emplace(config.model);
  import_weights(config, *reference_, pool);
}

std::vector<PolicyRun::Group> PolicyRun::sample(PolicyStep& report) const {
  Engine engine(policy_weights(config_.model, state_.weights, hash_tables_), engine_options(config_, pool_));
  const CounterRandom random(config_.run.seed, "rollouts");
  const std::int64_t first = state_.step * config_.grpo.prompts_per_step;
  const auto num_replies = static_cast<double>(config_.grpo.prompts_per_step * config_.grpo.group_size);
  std::vector<Group> groups;
  for (std::int64_t at = first; at < first + config_.grpo.prompts_per_step; ++at) {
    const PolicyPrompt& prompt = prompts_[static_cast<std::size_t>(at) % prompts_.size()];
    Group group{.prompt = &prompt,
                .rollouts = sample_group(engine, config_.grpo, prompt.tokens,
                                         static_cast<TokenId>(config_.model.eos_token_id),
                                         random.bits(static_cast<std::uint64_t>(at))),
                .advantages = {}};
    std::vector<double> rewards;
    for (const Rollout& rollout : group.rollouts) {
      const std::span<const TokenId> text =
          std::span(rollout.tokens).first(rollout.tokens.size() - (rollout.ended ? 1 : 0));
      rewards.push_back(
          reward(config_.reward, prompt.rule, tokenizer_.decode(text), prompt.mode, rollout.ended));
      report.reward += rewards.back() / num_replies;
      report.ended += (rollout.ended ? 1 : 0) / num_replies;
      report.reply_tokens += static_cast<double>(rollout.tokens.size()) / num_replies;
    }
    group.advantages = advantages(rewards, config_.grpo.normalise);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<double> PolicyRun::logprobs(const Parameters<float>& weights, const TrainingBatch& batch) {
  std::vector<double> result(static_cast<std::size_t>(std::ranges::count(batch.is_target, 1)));
  TokenLogprobs<float> measured(config_.grpo.temperature, result);
  graph_.run(weights, batch, pass_options(config_), nullptr, &measured);
  return result;
}

void PolicyRun::add_gradients(const Group& group, PolicyStep& report) {
  const GrpoConfig& grpo = config_.grpo;
  const bool equal = std::ranges::all_of(group.advantages, [](double value) { return value == 0; });
  if (equal && !reference_) return;
  ++report.num_groups;
  const TrainingBatch batch = rollout_batch(group.prompt->tokens, group.rollouts);
  const std::vector<double> now = logprobs(state_.weights, batch);
  const std::vector<double> reference = reference_ ? logprobs(*reference_, batch) : std::vector<double>();
  const PolicyTargets policy = sampled_targets(grpo, group.rollouts, group.advantages, now, reference,
                                               grpo.prompts_per_step * grpo.group_size);
  report.num_masked += policy.num_masked;
  double drift = 0;
  for (std::size_t i = 0; i < now.size(); ++i)
    drift += std::fabs(std::exp(now[i]) - std::exp(policy.targets[i].old_logprob));
  report.drift += drift / static_cast<double>(now.size());
  PolicyGradient<float> objective({.clip = grpo.clip, .beta = grpo.beta, .temperature = grpo.temperature},
                                  policy.targets);
  report.loss += graph_.run(state_.weights, batch, pass_options(config_), &gradients_, &objective).loss_sum;
}

PolicyStep PolicyRun::do_step() {
  PolicyStep report;
  report.learning_rate = learning_rate_at(config_, state_.step);
  const std::vector<Group> groups = sample(report);
  gradients_.set_zero();
  for (const Group& group : groups) add_gradients(group, report);
  report.drift /= static_cast<double>(std::max<std::int64_t>(report.num_groups, 1));
  const GradientNorms norms = update_.prepare(gradients_);
  report.gradient_norm = norms.trunk;
  report.not_finite = norms.not_finite;
  if (report.not_finite.empty() && !std::isfinite(report.loss)) report.not_finite = "the loss";
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
    progress.update(state_.step - begin, fmt::format("step {}: reward {:.3f}, {:.0f} tokens a reply",
                                                     report.step, report.reward, report.reply_tokens));
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
