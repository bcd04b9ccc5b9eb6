#include "trainer/run/training_run.h"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "base/progress.h"
#include "log/log.h"
#include "trainer/config/tensor_patterns.h"
#include "trainer/optimiser/balance.h"
#include "trainer/optimiser/schedule.h"
#include "trainer/run/training_data.h"

namespace baleen {
namespace {

using Clock = std::chrono::steady_clock;

double tokens_per_second(const TrainingStep& report, double seconds) {
  return static_cast<double>(report.num_tokens) / std::max(seconds, 1e-9);
}

}  // namespace

void check_supported(const TrainConfig& config, std::int64_t num_ranks) {
  if (config.ablation.plain_residual && config.lora.rank != 0)
    fail("ablation.plain_residual = true: adapters belong to a checkpoint, which has mixed streams");
  if (num_ranks == 1) return;
  const auto alone = [num_ranks](std::string_view what) {
    fail("{} processes were started, but {} on one process; start one", num_ranks, what);
  };
  if (config.lora.rank != 0) alone("adapters (lora.rank) are trained");
  if (!config.rollout.prompts.empty()) alone("a run on replies ([rollout]) is made");
  if (config.data.micro_batch_rows == 0 && config.data.batch_rows % num_ranks != 0) {
    fail("data.batch_rows = {}: expected a multiple of the {} processes, or data.micro_batch_rows",
         config.data.batch_rows, num_ranks);
  }
  if (config.num_micro_batches(num_ranks) < num_ranks) {
    fail(
        "data.micro_batch_rows = {}: {} rows a step give {} micro-batches; expected one at least for each of "
        "{} processes",
        config.data.micro_batch_rows, config.data.batch_rows, config.num_micro_batches(num_ranks), num_ranks);
  }
}

TrainingRun::TrainingRun(const TrainConfig& config, const RunFolder& folder, std::vector<LossFunction> losses,
                         TrainingRunOptions options, ThreadPool& pool)
    : config_(config),
      folder_(folder),
      micro_batches_(std::move(losses)),
      options_(std::move(options)),
      ranks_(options_.ranks),
      pool_(pool),
      shards_(open_training_data(config.data.folder, DataSplit::kTrain, config.model, ranks_)),
      sampler_(shards_, config.data.sequence_length, config.data.batch_rows, config.run.seed),
      continuations_(config),
      flops_(config.model, config.ablation.plain_residual),
      state_(config, ranks_.rank(), ranks_.size()),
      checkpoint_step_(start(options_.resume)),
      update_(config, state_, pool, ranks_),
      forward_weights_(config, state_, pool),
      gradients_(state_.weights.table()) {
  if (ranks_.is_first()) log_ = std::make_unique<TrainingLog>(folder.log(), state_.step, state_.log);
}

std::int64_t TrainingRun::start(bool resume) {
  if (TokenShards::has(config_.data.folder, DataSplit::kHeldOut)) {
    held_out_shards_ = open_training_data(config_.data.folder, DataSplit::kHeldOut, config_.model, ranks_);
    held_out_.emplace(*held_out_shards_, config_.data.sequence_length, 1, config_.run.seed);
  }
  state_.inputs = exported_inputs(config_);
  state_.inputs["data"] = data_checksums(shards_, held_out_shards_ ? &*held_out_shards_ : nullptr);
  return start_state(config_, folder_, resume, state_, pool_, ranks_.is_first());
}

PassOptions pass_options_at(const TrainConfig& config, std::int64_t step) {
  const IndexerStage stage = indexer_stage_at(config, step);
  return {.mtp_weight = mtp_weight_at(config, step),
          .recompute = config.run.recompute,
          .dense_attention = stage != IndexerStage::kSparse,
          .indexer_weight = stage == IndexerStage::kIdle ? 0 : config.loss.indexer_weight,
          .indexers_alone = stage == IndexerStage::kWarmUp,
          .balance_weight = config.balance.sequence_loss_weight,
          .plain_residual = config.ablation.plain_residual,
          .rounds_as_released = rounds_at(config, step),
          .bf16_products = config.bf16_products(),
          .scaled_rope = true};  // as inference does, so that serving changes nothing
}

std::size_t TrainingRun::num_figures() const {
  return 6 + static_cast<std::size_t>(config_.model.num_blocks() * config_.model.n_routed_experts);
}

std::vector<double> TrainingRun::figures_of(const PassOptions& options, const TrainingBatch& batch,
                                            const LossReport& pass) const {
  const auto mean = [](double sum, std::int64_t count) {
    return sum / static_cast<double>(std::max<std::int64_t>(count, 1));
  };
  std::vector<double> figures{mean(pass.loss_sum, batch.num_global_targets),
                              mean(pass.mtp_loss_sum, batch.num_global_targets),
                              mean(pass.indexer_loss_sum, batch.num_global_tokens),
                              mean(pass.balance_loss_sum, batch.num_global_documents),
                              static_cast<double>(batch.num_tokens()),
                              flops_.step(batch, options)};
  for (const std::vector<std::int64_t>& load : pass.expert_load)
    figures.insert(figures.end(), load.begin(), load.end());
  return figures;
}

void TrainingRun::add_figures(TrainingStep& report, const PassOptions& options,
                              std::span<const double> figures) const {
  report.loss += figures[0];
  report.mtp_loss += figures[1];
  if (options.indexer_weight != 0 && config_.model.num_layers_of(LayerKind::kCsa) > 0)
    report.indexer_loss = report.indexer_loss.value_or(0) + figures[2];
  if (options.balance_weight != 0) report.balance_loss = report.balance_loss.value_or(0) + figures[3];
  report.num_tokens += static_cast<std::int64_t>(figures[4]);
  report.flops += figures[5];
  const auto num_experts = static_cast<std::size_t>(config_.model.n_routed_experts);
  report.expert_load.resize(static_cast<std::size_t>(config_.model.num_blocks()));
  for (std::size_t block = 0; block < report.expert_load.size(); ++block) {
    report.expert_load[block].resize(num_experts);
    for (std::size_t e = 0; e < num_experts; ++e)
      report.expert_load[block][e] += static_cast<std::int64_t>(figures[6 + block * num_experts + e]);
  }
}

TrainingStep TrainingRun::do_step() {
  const std::int64_t num_parts = config_.num_micro_batches(ranks_.size());
  const PassOptions options = pass_options_at(config_, state_.step);
  const Parameters<float>& weights = forward_weights_.now();
  std::vector<double> figures(static_cast<std::size_t>(num_parts) * num_figures());
  const auto of_part = [&](std::int64_t part) {
    return std::span(figures).subspan(static_cast<std::size_t>(part) * num_figures(), num_figures());
  };
  micro_batches_.run({.weights = weights,
                      .options = options,
                      .parts = ranks_.share_of(num_parts),
                      .take =
                          [&](std::int64_t part) {
                            return sampler_.batch(state_.step * config_.data.batch_rows,
                                                  {.rank = part, .num_ranks = num_parts});
                          },
                      .done =
                          [&](std::int64_t part, const TrainingBatch& batch, const LossReport& pass) {
                            std::ranges::copy(figures_of(options, batch, pass), of_part(part).begin());
                          },
                      .gradients = &gradients_});
  ranks_.gather(num_parts, figures);
  TrainingStep report;
  report.learning_rate = learning_rate_at(config_, state_.step);
  for (std::int64_t part = 0; part < num_parts; ++part) add_figures(report, options, of_part(part));
  const GradientNorms norms = update_.prepare(gradients_);
  report.gradient_norm = norms.trunk;
  report.indexer_gradient_norm = norms.indexer;
  report.not_finite = norms.not_finite;
  if (report.not_finite.empty() && !std::isfinite(report.all_losses())) report.not_finite = "the loss";
  report.step = ++state_.step;
  if (!report.not_finite.empty()) {
    ++state_.skipped_in_row;
    return report;
  }
  state_.skipped_in_row = 0;
  report.num_left =
      update_.apply(norms, report.learning_rate,
                    {.trunk = !options.indexers_alone, .indexers = options.indexer_weight != 0});
  balance(report, !options.indexers_alone);
  return report;
}

void TrainingRun::balance(TrainingStep& report, bool moves) {
  const std::vector<std::vector<std::int64_t>>& load = report.expert_load;
  for (const std::vector<std::int64_t>& block : load)
    report.max_violation = std::max(report.max_violation, load_balance(block).max_violation);
  if (!moves || state_.adapters) return;
  Parameters<float>& weights = state_.weights;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (state_.optimiser.groups()[i].rule != UpdateRule::kBalance) continue;
    const auto block = static_cast<std::size_t>(weights.spec(i).block);
    update_bias(load[block], config_.balance.bias_speed, weights.values(i));
  }
}

std::string TrainingRun::note_of(const TrainingStep& report, double seconds) const {
  std::string note = fmt::format("loss {:.4f}, gradient {:.3g}, {:.0f} tokens/s", report.loss,
                                 report.gradient_norm, tokens_per_second(report, seconds));
  if (options_.fma_flops_per_second > 0)
    note += fmt::format(", {:.0f}% of peak", 100 * report.flops / seconds / options_.fma_flops_per_second);
  return note + fmt::format(", violation {:.2f}", report.max_violation);
}

double TrainingRun::predicted_seconds() {
  if (!options_.predicted_seconds) return 0;
  const PassOptions passes = pass_options_at(config_, state_.step);
  if (predicted_passes_ != passes) {
    predicted_ = options_.predicted_seconds(passes);
    predicted_passes_ = passes;
  }
  return predicted_;
}

void TrainingRun::write_log(const TrainingStep& report, double seconds, double predicted) {
  nlohmann::ordered_json line{{"step", report.step},
                              {"loss", report.loss},
                              {"mtp_loss", report.mtp_loss},
                              {"gradient_norm", report.gradient_norm},
                              {"learning_rate", report.learning_rate},
                              {"tokens", report.num_tokens},
                              {"seconds", seconds},
                              {"tokens_per_second", tokens_per_second(report, seconds)},
                              {"max_violation", report.max_violation},
                              {"matrices_without_gradient", report.num_left}};
  if (predicted > 0) line["predicted_seconds"] = predicted;
  if (options_.fma_flops_per_second > 0)
    line["share_of_fma_peak"] = report.flops / std::max(seconds, 1e-9) / options_.fma_flops_per_second;
  if (report.indexer_loss) {
    line["indexer_loss"] = *report.indexer_loss;
    line["indexer_gradient_norm"] = report.indexer_gradient_norm;
  }
  if (report.balance_loss) line["balance_loss"] = *report.balance_loss;
  line["expert_load"] = report.expert_load;
  if (!report.not_finite.empty()) line["skipped"] = report.not_finite;
  log_->write(line);
}

void TrainingRun::evaluate_and_log() {
  nlohmann::ordered_json line{{"step", state_.step}};
  const PassOptions options = main_loss_only(pass_options_at(config_, state_.step));
  const Parameters<float>& weights = forward_weights_.now();
  if (held_out_) {
    const Evaluation result =
        evaluate(ranks_, micro_batches_, weights, options, *held_out_, *held_out_shards_,
                 config_.evaluation.rows, config_.micro_batch_rows(ranks_.size()));
    if (!ranks_.is_first()) return;
    line["held_out_nats_per_token"] = result.nats_per_token;
    line["held_out_bits_per_byte"] = result.bits_per_byte;
    line["held_out_targets"] = result.num_targets;
    log_line("step {}: held out {:.4f} nats a token, {:.4f} bits a byte", grouped(state_.step),
             result.nats_per_token, result.bits_per_byte);
  }
  if (!ranks_.is_first()) return;
  if (options_.logits && !continuations_.empty()) {
    for (const auto& [prompt, text] : continuations_.write(options_.logits, weights, options))
      line["continuations"].push_back({{"prompt", prompt}, {"text", text}});
  }
  if (line.size() > 1) log_->write(line);
}

void TrainingRun::write_checkpoint() {
  Optimiser& optimiser = state_.optimiser;
  const std::vector<std::int64_t>& homes = optimiser.homes().of_tensor;
  for (std::size_t i = 0; i < homes.size(); ++i) {
    if (homes[i] < 0) continue;
    if (ranks_.is_first()) optimiser.make_room(i);
    ranks_.bring_to_first(homes[i], optimiser.first(i));
    ranks_.bring_to_first(homes[i], optimiser.second(i));
  }
  if (ranks_.is_first()) {
    state_.log = log_->mark();
    write_run_checkpoint(folder_.checkpoint(state_.step), config_, state_);
    folder_.remove_old_checkpoints(config_.checkpoint.keep);
  }
  optimiser.drop_others();
  checkpoint_step_ = state_.step;
}

void TrainingRun::run() {
  const std::int64_t end =
      options_.stop_step == 0 ? config_.run.steps : std::min(options_.stop_step, config_.run.steps);
  std::optional<Progress> progress;
  if (ranks_.is_first()) progress.emplace("training", "steps", end, state_.step);
  while (state_.step < end) {
    const double predicted = predicted_seconds();
    const Clock::time_point start = Clock::now();
    const TrainingStep report = do_step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    ++seconds_.num_steps;
    seconds_.measured += seconds;
    seconds_.predicted += predicted;
    const bool skipped = !report.not_finite.empty();
    if (ranks_.is_first()) {
      if (skipped || report.step == end || report.step % config_.run.log_interval == 0)
        write_log(report, seconds, predicted);
      progress->update(state_.step, note_of(report, seconds));
      if (skipped) log_line("step {}: skipped: {} is not finite", report.step, report.not_finite);
    }
    if (state_.skipped_in_row >= kMaxSkippedInRow) {
      fail("step {}: {} is not finite, the third step in a row; {}; try a lower schedule.learning_rate",
           report.step, report.not_finite,
           checkpoint_step_ < 0 ? std::string("there is no checkpoint yet")
                                : fmt::format("the checkpoint of step {} is intact", checkpoint_step_));
    }
    const std::int64_t interval = config_.evaluation.interval;
    if (state_.step == config_.run.steps || (interval != 0 && state_.step % interval == 0))
      evaluate_and_log();
    if (state_.step % config_.checkpoint.interval == 0) write_checkpoint();
    if (ranks_.any(options_.interrupted && options_.interrupted())) break;
  }
  if (checkpoint_step_ != state_.step) write_checkpoint();
}

}  // namespace baleen
