/// Runs steps over sequences on one device: cache, sequences, the pass, logits and choices, drafts, steps
/// under way. What a whole step is, and what becomes of one that fails, its caller decides.
///
///     prepare ─► run ─► results ─► commit            begin ─► collect
///     checks,    the    logits or   tokens are       the same, ahead of what earlier steps choose
///     pages      pass   choices     the sequences'
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/device_model.h"
#include "engine/draft_session.h"
#include "engine/engine_limits.h"
#include "engine/engine_options.h"
#include "engine/expert_promotion.h"
#include "engine/foreseen_tokens.h"
#include "engine/logit_buffer.h"
#include "engine/main_pass.h"
#include "engine/queued_steps.h"
#include "engine/sequence_table.h"
#include "engine/step_admission.h"
#include "engine/step_batch.h"
#include "engine/step_engine.h"
#include "engine/token_chooser.h"
#include "kv_cache/kv_cache.h"
#include "tensor/buffer.h"

namespace baleen {

/// Of a step that was run.
struct ComputedStep {
  StepOutput output;
  bool is_finite = true;  ///< its logits; where they are not, only `first_bad_block` is of use
};

/// Not thread-safe.
class ModelRunner {
 public:
  /// Reserves what the model's plan says. `config` of the whole model, `options` resolved. All of them
  /// outlive this.
  ModelRunner(DeviceModel& model, const ModelConfig& config, const EngineOptions& options);

  [[nodiscard]] const EngineLimits& limits() const { return limits_; }
  [[nodiscard]] SequenceTable& sequences() { return sequences_; }
  [[nodiscard]] const SequenceTable& sequences() const { return sequences_; }
  [[nodiscard]] KvCache& cache() { return cache_; }
  /// Null without drafts.
  [[nodiscard]] const DraftHead* draft_head() const { return drafts_ ? &drafts_->head() : nullptr; }
  [[nodiscard]] std::vector<std::vector<std::int64_t>> expert_load() const { return pass_.expert_load(); }

  /// As SequenceTable::open, and StepEngine::foresee.
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> prompt,
                                               std::int64_t decoder_begin = 0);
  void foresee(SequenceId sequence, std::span<const TokenId> tokens) { foreseen_.foresee(sequence, tokens); }
  /// The next step will check drafts behind these tokens; on ranks without the draft head too.
  void foresee(std::span<const DraftInput> inputs, std::int64_t depth) { foreseen_.foresee(inputs, depth); }

  /// Prepares the sizes that decoding steps have, with a progress line.
  void capture_steps();

  /// Finds what is wrong and takes pages.
  [[nodiscard]] std::optional<Failure> prepare(std::span<const StepInput> inputs) {
    return admission_.admit(inputs);
  }
  /// What the step's rows ask of the decoder half; of ranks `run` and `begin` want that of all of them.
  [[nodiscard]] DecoderUse decoder_use(std::span<const StepInput> inputs) const {
    return batch_.decoder_use(inputs);
  }
  /// The main layers: streams of the step's rows, valid until the next pass. None is under way.
  [[nodiscard]] ConstActivations<3> run(std::span<const StepInput> inputs, DecoderUse use);
  /// What the step comes to, of all that `run` was given. A failure of the draft head; the step's own is in
  /// `ComputedStep::is_finite`.
  [[nodiscard]] Result<ComputedStep> results(std::span<const StepInput> inputs, ConstActivations<3> streams);
  /// The step's tokens become a part of their sequences.
  void commit(std::span<const StepInput> inputs);

  /// Begins a step, prepared, as StepEngine::queue. `num_links`: the drafts that an input has at most.
  void begin(std::span<const StepInput> inputs, std::int64_t num_links, DecoderUse use);
  /// As StepEngine::collect.
  [[nodiscard]] ComputedStep collect();

  /// Runs the latest step with results again, looking at the wanted rows after every block: the first block
  /// of the whole model with values that are not finite.
  [[nodiscard]] std::optional<std::int64_t> first_bad_block() {
    return pass_.first_bad_block(batch_.rows(), batch_.decoder_rows(), batch_.wanted_rows());
  }

  /// What is wrong with drafts (StepEngine::draft).
  [[nodiscard]] std::optional<Failure> check_drafts(std::span<const DraftInput> inputs,
                                                    std::int64_t depth) const {
    return admission_.check_drafts(inputs, depth);
  }
  /// Of inputs with which nothing is wrong.
  [[nodiscard]] Result<DraftOutput> draft(std::span<const DraftInput> inputs, std::int64_t depth) {
    return drafts_->draft(inputs, depth);
  }

 private:
  /// Logits of the rows that the step wants, on the device: those of inputs with draws first.
  [[nodiscard]] Activations<2> wanted_logits(ConstActivations<3> streams);
  /// Logits or chosen tokens of a step; whether they are numbers.
  [[nodiscard]] bool read_results(std::span<const StepInput> inputs, ConstActivations<3> streams,
                                  StepOutput& output);
  /// Sequences that are open learn tokens that were not known when the step began.
  void name_drafts(const QueuedStep& step, std::span<const TokenId> drafted);
  void name_sources(std::span<const QueuedPart> parts, std::span<const TokenId> chosen);
  [[nodiscard]] bool is_finite(const QueuedStep& step, std::span<const TokenId> chosen) const;

  [[nodiscard]] std::unique_ptr<DraftSession> open_drafts();

  DeviceModel& model_;
  const EngineOptions& options_;
  EngineLimits limits_;
  KvCache cache_{cache_geometry(model_.rank(), options_), model_.plan().capacity, model_.device().memory()};
  SequenceTable sequences_{cache_, options_.reserved_tails, options_.bounded_replay_tokens > 0};
  StepArenas arenas_{model_};
  MainPass pass_{model_, cache_, options_, arenas_.device};
  TokenChooser chooser_{model_.device(), options_.max_logit_rows, arenas_.device};
  LogitBuffer logits_{options_.max_logit_rows, model_, arenas_};
  std::unique_ptr<DraftSession> drafts_ = open_drafts();  ///< null without
  QueuedSteps queued_{options_.max_logit_rows, model_.device().host_visible_memory()};
  StepAdmission admission_;
  StepBatch batch_;  ///< the latest step's
  ForeseenTokens foreseen_{sequences_, model_.engram(), options_.max_batch_tokens};
  ExpertPromotion promotion_{pass_, model_.experts()};
};

}  // namespace baleen
