/// Steps under way: while the host looks at what one step chose, the next runs already, fed on the device
/// with those choices.
///
///     place 0   step 0: choices ──► tokens of step 1        step 2: choices ──► ...
///     place 1                       step 1: choices ──────► tokens of step 2
///
/// Each step leaves its choices at a place that device and host reach, and takes tokens from the other one.
/// Where steps have drafts, none runs ahead of another, and the other place holds the step's drafts.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "engine/step_batch.h"
#include "engine/step_engine.h"
#include "tensor/buffer.h"
#include "tensor/memory.h"

namespace baleen {

/// One sequence's part of a step.
struct QueuedPart {
  SequenceId sequence{};
  std::int64_t begin = 0, end = 0;  ///< positions
  std::int64_t first_choice = 0, num_choices = 0;
  std::optional<std::int64_t> source;  ///< choice of the step before that is its only token
  std::vector<std::int64_t> drafts;    ///< its last tokens: places among those that the device leaves
};

struct QueuedStep {
  std::vector<QueuedPart> parts;
  std::int64_t num_choices = 0;
  std::size_t place = 0;  ///< where its choices and its mark lie
  DecoderUse decoder_use;
};

class QueuedSteps {
 public:
  static constexpr std::size_t kMaxSteps = StepEngine::kMaxQueued;

  /// `memory`: device and host reach it. Outlives this.
  QueuedSteps(std::int64_t max_choices, Memory& memory);

  [[nodiscard]] bool empty() const { return under_way_.empty(); }
  [[nodiscard]] std::size_t size() const { return under_way_.size(); }
  /// Whether another step may be queued: without drafts behind one without drafts.
  [[nodiscard]] bool takes_another(std::int64_t num_drafts) const;
  /// Which choice of the step queued last is a sequence's next token; none if that step chooses none for it.
  [[nodiscard]] std::optional<std::int64_t> choice_of(SequenceId sequence) const;

  /// Where the next step finds the tokens that the device leaves for it.
  [[nodiscard]] std::span<TokenId> tokens_for_next() const { return at(num_queued_ + 1); }
  /// The next step, whose batch is laid out: tokens that the device chooses get their names in `batch`.
  /// `drafts`: of each input, their places in `tokens_for_next`.
  [[nodiscard]] QueuedStep next(std::span<const StepInput> inputs,
                                std::vector<std::vector<std::int64_t>> drafts, StepBatch& batch) const;
  /// Where the device leaves what a step chooses.
  [[nodiscard]] std::span<TokenId> choices(const QueuedStep& step) const {
    return at(step.place).first(static_cast<std::size_t>(step.num_choices));
  }
  /// What `next` returned is under way.
  void push(QueuedStep step);

  /// The oldest step under way, for whose mark the caller then waits.
  [[nodiscard]] QueuedStep pop();
  /// What a step chose that has ended, and its drafts, in batch order. `confidence`: of drafts, by their
  /// places; empty: the head has none. Valid until the next call.
  [[nodiscard]] StepOutput read(const QueuedStep& step, std::span<const float> confidence);
  /// Parts of the step that is the oldest now.
  [[nodiscard]] std::span<const QueuedPart> oldest() const {
    return under_way_.empty() ? std::span<const QueuedPart>() : under_way_.front().parts;
  }

 private:
  [[nodiscard]] std::span<TokenId> at(std::size_t step) const;

  std::size_t max_choices_;
  Buffer choices_;  ///< [kMaxSteps, max_choices] tokens
  std::deque<QueuedStep> under_way_;
  std::size_t num_queued_ = 0;  ///< since the start
  std::vector<TokenId> chosen_, drafted_;
  std::vector<float> confidence_;
};

}  // namespace baleen
