/// The one list of a run's keys, their limits and their order: reading, printing and comparing walk it. The
/// model's own fields are those of model/config.h.
#pragma once

#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "base/number.h"
#include "trainer/config/train_config.h"

namespace baleen::train_config {

/// Whether a value changes the weights that come out, and so whether a resumed run must have the same.
enum class Effect : bool { kNone, kOnWeights };
/// kRequiredData: except of a run that makes its own data, [rollout].
enum class Presence : std::uint8_t { kOptional, kRequired, kRequiredData };

/// A key as the file has it: section and name.
struct Key {
  std::string_view section;
  std::string_view name;
  Effect effect = Effect::kOnWeights;
  Presence presence = Presence::kOptional;
};

inline constexpr std::array<std::pair<TrainPrecision, std::string_view>, 2> kPrecisionNames{
    {{TrainPrecision::kFloat32, "float32"}, {TrainPrecision::kBf16, "bf16"}}};
inline constexpr std::array<std::pair<MatrixOptimizer, std::string_view>, 2> kMatrixOptimizerNames{
    {{MatrixOptimizer::kMuon, "muon"}, {MatrixOptimizer::kAdamW, "adamw"}}};

inline constexpr WholeRange kSteps{1, std::int64_t{1} << 40};
inline constexpr WholeRange kStepsOrNone{0, std::int64_t{1} << 40};
inline constexpr WholeRange kThreads{0, 1024};
inline constexpr WholeRange kConcurrent{1, 1024};
inline constexpr WholeRange kSequenceLength{16, 1 << 20};
inline constexpr WholeRange kRows{1, 1 << 24};
inline constexpr WholeRange kRowsOrNone{0, 1 << 24};
inline constexpr WholeRange kKept{1, 1 << 20};
inline constexpr WholeRange kRanks{0, 4096};
inline constexpr WholeRange kGroups{1, 1024};
inline constexpr WholeRange kReplyTokens{1, 1 << 20};
inline constexpr WholeRange kPromptTokens{1, 1 << 16};
inline constexpr WholeRange kSeeds{0, std::numeric_limits<std::int64_t>::max()};
inline constexpr RealRange kRate{.min = 0, .max = 1};
inline constexpr RealRange kWeight{.min = 0, .max = 1000};
inline constexpr RealRange kBelowOne{.min = 0, .max = 0.999999};
inline constexpr RealRange kEpsilon{.min = 0, .max = 1, .above_min = true};
inline constexpr RealRange kTemperatures{.min = 0.01, .max = 10};
inline constexpr RealRange kAlpha{.min = 0, .max = 10000, .above_min = true};
inline constexpr RealRange kDeviation{.min = 0, .max = 10, .above_min = true};

template <class Config, class Visitor>
void visit_fields(Config& c, Visitor&& field) {
  constexpr auto kNone = Effect::kNone;
  constexpr auto kOnWeights = Effect::kOnWeights;
  constexpr auto kRequired = Presence::kRequired;
  constexpr auto kRequiredData = Presence::kRequiredData;
  field(Key{"run", "folder", kNone, kRequired}, c.run.folder);
  field(Key{"run", "from"}, c.run.from);
  field(Key{"run", "steps", kOnWeights, kRequired}, c.run.steps, kSteps);
  field(Key{"run", "seed"}, c.run.seed, kSeeds);
  field(Key{"run", "threads", kNone}, c.run.threads, kThreads);
  field(Key{"run", "concurrent_micro_batches", kNone}, c.run.concurrent_micro_batches, kConcurrent);
  field(Key{"run", "precision"}, c.run.precision, kPrecisionNames);
  field(Key{"run", "recompute", kNone}, c.run.recompute);
  field(Key{"run", "log_interval", kNone}, c.run.log_interval, kSteps);
  field(Key{"model", "initializer_range"}, c.initializer_range, kDeviation);
  field(Key{"data", "folder", kNone, kRequiredData}, c.data.folder);
  field(Key{"data", "sequence_length", kOnWeights, kRequiredData}, c.data.sequence_length, kSequenceLength);
  field(Key{"data", "batch_rows", kOnWeights, kRequiredData}, c.data.batch_rows, kRows);
  field(Key{"data", "micro_batch_rows"}, c.data.micro_batch_rows, kRowsOrNone);
  field(Key{"schedule", "learning_rate"}, c.schedule.learning_rate, kRate);
  field(Key{"schedule", "final_learning_rate"}, c.schedule.final_learning_rate, kRate);
  field(Key{"schedule", "warmup_steps"}, c.schedule.warmup_steps, kStepsOrNone);
  field(Key{"schedule", "decay_steps"}, c.schedule.decay_steps, kStepsOrNone);
  field(Key{"optimizer", "matrices"}, c.optimizer.matrices, kMatrixOptimizerNames);
  field(Key{"optimizer", "gradient_clip"}, c.optimizer.gradient_clip, kWeight);
  field(Key{"muon", "momentum"}, c.muon.momentum, kBelowOne);
  field(Key{"muon", "update_rms"}, c.muon.update_rms, kDeviation);
  field(Key{"muon", "weight_decay"}, c.muon.weight_decay, kRate);
  field(Key{"adamw", "beta1"}, c.adamw.beta1, kBelowOne);
  field(Key{"adamw", "beta2"}, c.adamw.beta2, kBelowOne);
  field(Key{"adamw", "epsilon"}, c.adamw.epsilon, kEpsilon);
  field(Key{"adamw", "weight_decay"}, c.adamw.weight_decay, kRate);
  field(Key{"adamw", "decay_norms"}, c.adamw.decay_norms);
  field(Key{"loss", "mtp_weight"}, c.loss.mtp_weight, kWeight);
  field(Key{"loss", "mtp_weight_in_decay"}, c.loss.mtp_weight_in_decay, kWeight);
  field(Key{"loss", "indexer_weight"}, c.loss.indexer_weight, kWeight);
  field(Key{"balance", "bias_speed"}, c.balance.bias_speed, kRate);
  field(Key{"balance", "sequence_loss_weight"}, c.balance.sequence_loss_weight, kWeight);
  field(Key{"indexer", "dense_steps"}, c.indexer.dense_steps, kStepsOrNone);
  field(Key{"indexer", "warmup_steps"}, c.indexer.warmup_steps, kStepsOrNone);
  field(Key{"qat", "start_step"}, c.qat.start_step, kStepsOrNone);
  field(Key{"checkpoint", "interval", kNone}, c.checkpoint.interval, kSteps);
  field(Key{"checkpoint", "keep", kNone}, c.checkpoint.keep, kKept);
  field(Key{"evaluation", "interval", kNone}, c.evaluation.interval, kStepsOrNone);
  field(Key{"evaluation", "rows", kNone}, c.evaluation.rows, kRows);
  field(Key{"evaluation", "prompts", kNone}, c.evaluation.prompts);
  field(Key{"evaluation", "prompt_tokens", kNone}, c.evaluation.prompt_tokens, kPromptTokens);
  field(Key{"tune", "tensors"}, c.tune.tensors);
  field(Key{"lora", "rank"}, c.lora.rank, kRanks);
  field(Key{"lora", "alpha"}, c.lora.alpha, kAlpha);
  field(Key{"rollout", "prompts", kNone}, c.rollout.prompts);
  field(Key{"rollout", "prompts_per_step"}, c.rollout.prompts_per_step, kRows);
  field(Key{"rollout", "group_size"}, c.rollout.group_size, kGroups);
  field(Key{"rollout", "prompt_tokens"}, c.rollout.prompt_tokens, kReplyTokens);
  field(Key{"rollout", "max_tokens"}, c.rollout.max_tokens, kReplyTokens);
  field(Key{"rollout", "temperature"}, c.rollout.temperature, kTemperatures);
  field(Key{"grpo", "clip"}, c.grpo.clip, kBelowOne);
  field(Key{"grpo", "beta"}, c.grpo.beta, kWeight);
  field(Key{"grpo", "mask_threshold"}, c.grpo.mask_threshold, kWeight);
  field(Key{"grpo", "normalise"}, c.grpo.normalise);
  field(Key{"distill", "teachers"}, c.distill.teachers);
  field(Key{"distill", "domains"}, c.distill.domains);
  field(Key{"sft", "folder"}, c.sft.folder);
  field(Key{"sft", "weight"}, c.sft.weight, kWeight);
  field(Key{"sft", "rows"}, c.sft.rows, kRows);
  field(Key{"sft", "sequence_length"}, c.sft.sequence_length, kSequenceLength);
  field(Key{"reward", "answer"}, c.reward.answer, kWeight);
  field(Key{"reward", "pattern"}, c.reward.pattern, kWeight);
  field(Key{"reward", "call_parses"}, c.reward.call_parses, kWeight);
  field(Key{"reward", "call_matches"}, c.reward.call_matches, kWeight);
  field(Key{"ablation", "plain_residual"}, c.ablation.plain_residual);
}

}  // namespace baleen::train_config
