/// The configuration of a training run: a TOML file as plain data, validated once, immutable afterwards.
/// Every key stands in one table (train_config_fields.h), which reading, printing and comparing walk;
/// configs/stories-cpu.toml is a whole file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace baleen {

/// Arithmetic of products in forward and backward; master weights, gradients and optimiser states are float32
/// always.
enum class TrainPrecision : std::uint8_t { kFloat32, kBf16 };
/// What updates the matrices that the technical report gives to Muon; all other parameters have AdamW.
enum class MatrixOptimizer : std::uint8_t { kMuon, kAdamW };

/// [run]
struct RunConfig {
  /// Holds checkpoints and logs; relative paths are relative to the config file.
  std::filesystem::path folder;
  std::filesystem::path from;  ///< checkpoint with the first weights and hash tables; empty: new ones
  std::int64_t steps = 0;      ///< optimiser steps of the whole run
  std::uint64_t seed = 1;      ///< draws the first weights, the hash routing table and the order of the data
  std::int64_t threads = 0;    ///< 0: all processors that this process may use
  /// Micro-batches computed at a time, which share the threads; each has activations of its own.
  std::int64_t concurrent_micro_batches = 1;
  TrainPrecision precision = TrainPrecision::kFloat32;
  bool recompute = true;          ///< keep the inputs of a block only, and compute it again for its backward
  std::int64_t log_interval = 1;  ///< steps between lines of the log
};

/// [data]
struct DataConfig {
  /// Written by `baleen data pack`. Of a [grpo] run, which has no other data, the folder of the tokenizer:
  /// that of `run.from`.
  std::filesystem::path folder;
  std::int64_t sequence_length = 0;   ///< tokens of a row, at most
  std::int64_t batch_rows = 0;        ///< rows of a step, over all ranks and micro-batches
  std::int64_t micro_batch_rows = 0;  ///< rows of one forward and backward on one rank; 0: those of the step
};

/// [schedule]: linear from 0 over `warmup_steps`, then `learning_rate`, then a cosine to
/// `final_learning_rate` over the last `decay_steps`. (source: training specification, 2)
struct ScheduleConfig {
  double learning_rate = 2.7e-4;
  double final_learning_rate = 2.7e-5;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;
};

/// [muon] (source: training specification, 4)
struct MuonConfig {
  double momentum = 0.95;
  double update_rms = 0.18;  ///< gamma: root mean square of an update at learning rate 1
  double weight_decay = 0.1;
};

/// [adamw] (source: training specification, 5)
struct AdamWConfig {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-20;
  double weight_decay = 0.1;
  bool decay_norms = false;  ///< also the weights of RMSNorms
};

/// [optimizer]
struct OptimizerConfig {
  MatrixOptimizer matrices = MatrixOptimizer::kMuon;
  double gradient_clip = 1.0;  ///< global norm; 0: no clipping
};

/// [loss] (source: training specification, 1)
struct LossConfig {
  double mtp_weight = 0.3;
  double mtp_weight_in_decay = 0.1;  ///< from the start of the schedule's decay
  double indexer_weight = 1.0;       ///< weighs the indexers' own loss; it reaches their parameters
                                     ///< only. 0: they keep their first weights
};

/// [balance] (source: training specification, 6)
struct BalanceConfig {
  double bias_speed = 0.001;           ///< 0: no auxiliary-loss-free balancing
  double sequence_loss_weight = 1e-4;  ///< weighs each document's balance loss; 0: none
};

/// [indexer] (source: training specification, 2 and 7)
struct IndexerConfig {
  std::int64_t dense_steps =
      0;  ///< first steps whose ratio-4 layers attend to all visible entries, indexer idle
  std::int64_t warmup_steps = 0;  ///< next steps: attention dense, only the indexers are trained
};

/// [qat] (source: training specification, 8)
struct QatConfig {
  std::optional<std::int64_t>
      start_step;  ///< first step whose forward rounds as the released formats do; empty: never
};

/// [checkpoint]
struct CheckpointConfig {
  std::int64_t interval = 100;  ///< steps between checkpoints; the last step has one always
  std::int64_t keep = 2;        ///< newest ones that stay on disk
};

/// [evaluation]
struct EvaluationConfig {
  std::int64_t interval = 100;  ///< steps; 0: after the last step only
  std::int64_t rows = 64;       ///< rows of the held-out split, from its first on; fewer where it has fewer
  std::vector<std::string> prompts;  ///< texts that the model continues at each evaluation, for the report
  std::int64_t prompt_tokens = 64;   ///< tokens of each continuation
};

/// [tune]
struct TuneConfig {
  std::vector<std::string> tensors;  ///< patterns of the tensors that are trained; empty: all
};

/// [lora]: low-rank adapters in the place of the chosen matrices; everything else stays as it is.
struct LoraConfig {
  std::int64_t rank = 0;  ///< 0: no adapters
  double alpha = 16;      ///< the product of the two factors is scaled by alpha / rank

  [[nodiscard]] double scale() const { return alpha / static_cast<double>(rank); }
};

/// [rollout]: a run on replies that the model in training samples itself.
struct RolloutConfig {
  std::filesystem::path prompts;      ///< JSON lines (trainer/post/prompt_set.h); empty: no such run
  std::int64_t prompts_per_step = 4;  ///< taken in the order of the file
  std::int64_t group_size = 16;       ///< replies to each
  std::int64_t prompt_tokens = 1024;  ///< the longest prompt
  std::int64_t max_tokens = 256;      ///< limit of a reply
  double temperature = 1;
};

/// [grpo]: what a run on replies does without [distill]. (source: training specification, 13)
struct GrpoConfig {
  double clip = 0.2;            ///< epsilon of the clipped ratio
  double beta = 0.001;          ///< weight of the KL estimate to the policy of run.from; 0: none
  double mask_threshold = 0.1;  ///< delta of the sequence mask
  bool normalise = false;       ///< advantages over their standard deviation
};

/// [distill]: replies are compared with teachers' probabilities. (source: training specification, 14)
struct DistillConfig {
  std::vector<std::string> teachers;  ///< folders of checkpoints, relative to the file; empty: none
  /// One for each teacher; a prompt's domain chooses it. Empty: one teacher.
  std::vector<std::string> domains;
};

/// [sft]: packed texts or conversations that a run on replies also learns from.
struct SftConfig {
  std::filesystem::path folder;  ///< holds packed data, relative to the file; empty: none
  double weight = 1;             ///< weighs its loss, a mean over targets, beside that of the replies
  std::int64_t rows = 8;         ///< rows that a step has
  std::int64_t sequence_length = 512;
};

/// [reward]: what each rule that a prompt has is worth.
struct RewardConfig {
  double answer = 1;         ///< the content is the prompt's "answer"
  double pattern = 1;        ///< its "pattern" is found in the content
  double call_parses = 0.2;  ///< there is a tool call that parses
  double call_matches = 1;   ///< it is the only one, and the prompt's "call"
};

/// [ablation]: parts of the architecture replaced, for comparisons.
struct AblationConfig {
  /// One residual stream in the place of the mixed streams (mHC): `model.hc_mult` becomes 1.
  bool plain_residual = false;
};

struct TrainConfig {
  RunConfig run;
  /// [model]: `preset`, or without one the configuration of `run.from`, and any field of config.json in the
  /// place of theirs
  ModelConfig model;
  double initializer_range = 0.02;  ///< [model] standard deviation of the first weights
  DataConfig data;
  ScheduleConfig schedule;
  OptimizerConfig optimizer;
  MuonConfig muon;
  AdamWConfig adamw;
  LossConfig loss;
  BalanceConfig balance;
  IndexerConfig indexer;
  QatConfig qat;
  CheckpointConfig checkpoint;
  EvaluationConfig evaluation;
  TuneConfig tune;
  LoraConfig lora;
  RolloutConfig rollout;
  GrpoConfig grpo;
  DistillConfig distill;
  SftConfig sft;
  RewardConfig reward;
  AblationConfig ablation;

  [[nodiscard]] bool bf16_products() const { return run.precision == TrainPrecision::kBf16; }

  /// Rows of one forward and backward: `micro_batch_rows`, or those of the step on one of `num_ranks`.
  [[nodiscard]] std::int64_t micro_batch_rows(std::int64_t num_ranks) const {
    return data.micro_batch_rows != 0 ? data.micro_batch_rows : data.batch_rows / num_ranks;
  }
  /// Of a step, on all of `num_ranks`.
  [[nodiscard]] std::int64_t num_micro_batches(std::int64_t num_ranks) const {
    return data.batch_rows / micro_batch_rows(num_ranks);
  }
};

/// Reads and validates TOML text. `label` names the file in sentences; relative paths become relative to
/// `base`. `from` takes the place of run.from, unless it is empty. Throws `Error` that names file, line and
/// key, what was found and what is allowed; an unknown key is an error that names the nearest known one.
[[nodiscard]] TrainConfig parse_train_config(std::string_view text, std::string_view label,
                                             const std::filesystem::path& base,
                                             const std::filesystem::path& from = {});

/// `parse_train_config` of a file.
[[nodiscard]] TrainConfig load_train_config(const std::filesystem::path& path,
                                            const std::filesystem::path& from = {});

/// All values, one `section.key = value` a line in a fixed order, defaults and preset spelt out: equal texts
/// are equal configurations, whatever the files looked like.
[[nodiscard]] std::string canonical_text(const TrainConfig& config);

/// XXH3-128 of the lines of `canonical_text` that the trained weights depend on, in hex. Not among them:
/// folders, threads, and the intervals of logs, checkpoints and evaluations.
[[nodiscard]] std::string config_hash(const TrainConfig& config);

/// One sentence for each line that differs and that the trained weights depend on:
/// `schedule.learning_rate: 0.001 before, 0.002 now`. Empty where resuming continues the same run. `before`
/// is the `canonical_text` that a checkpoint keeps; a key that only one of the texts has counts as different.
[[nodiscard]] std::vector<std::string> config_differences(std::string_view before, const TrainConfig& now);

}  // namespace baleen
