/// The draft head over an engine's sequences: it follows every step and drafts between steps, or in chains
/// that are queued ahead of a step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "drafts/draft_head.h"
#include "engine/logit_buffer.h"
#include "engine/main_pass.h"
#include "engine/step_batch.h"
#include "engine/step_engine.h"
#include "engine/token_chooser.h"
#include "tensor/buffer.h"

namespace baleen {

/// Not thread-safe.
class DraftSession {
 public:
  /// Of options with drafts. Takes the arrays of the head and its logits from `arenas`. All referenced
  /// outlive this.
  DraftSession(const EngineOptions& options, DeviceModel& model, MainPass& pass, KvCache& cache,
               const SequenceTable& sequences, TokenChooser& chooser, StepArenas& arenas);

  /// Prepares what it runs over `num_rows` rows.
  void capture(std::int64_t num_rows) { head_->capture(num_rows); }

  /// Shows the head a step, laid out in `batch`; its logits of rows where all are wanted. `chosen`: what
  /// tokens of the step stand for (StepBatches::begin).
  [[nodiscard]] ConstActivations<2> follow(std::span<const StepInput> inputs, const StepBatch& batch,
                                           ConstActivations<3> streams, std::span<const TokenId> chosen);
  /// A sequence has come to `end`: rows that wait for a later token show nothing old.
  void clear_due_rows(SequenceId sequence, std::int64_t end);

  /// As StepEngine::draft, of inputs that were admitted.
  [[nodiscard]] Result<DraftOutput> draft(std::span<const DraftInput> inputs, std::int64_t depth);
  /// Queues the chains of drafts of a step, of `num_links` links at most; each input's places in `drafted`,
  /// where the device leaves them. Their confidences are at the same places of `confidence`.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> queue(std::span<const StepInput> inputs,
                                                             std::int64_t num_links,
                                                             std::span<TokenId> drafted);

  /// Of the drafts that were made last, once the device has them: by row of `draft`, by place of `queue`.
  /// Empty where the head tells none.
  [[nodiscard]] std::span<const float> confidence() const { return all_confidences(); }

  /// The sentence about logits of the head.
  [[nodiscard]] Failure not_numbers() const;
  [[nodiscard]] const DraftHead& head() const { return *head_; }

 private:
  /// One link of chains of drafts: logits [inputs, V] on the device. Confidences go to places from
  /// `first_place` on.
  [[nodiscard]] Activations<2> link(std::span<const DraftInput> inputs, std::int64_t depth,
                                    std::span<const TokenId> chosen, std::int64_t first_place);
  [[nodiscard]] std::span<float> all_confidences() const {
    return {reinterpret_cast<float*>(confidence_.data()),
            static_cast<std::size_t>(confidence_.size_bytes()) / sizeof(float)};
  }

  const DraftHeadType& type_;
  Device& device_;
  const SequenceTable& sequences_;
  TokenChooser& chooser_;
  LogitBuffer logits_;
  Buffer confidence_;  ///< [max_logit_rows] float32 that device and host reach; empty where the head has none
  std::unique_ptr<DraftHead> head_;
};

}  // namespace baleen
