/// What is wrong with a step or with drafts, found before anything is computed; and the pages of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"
#include "engine/queued_steps.h"
#include "engine/sequence_table.h"
#include "engine/step_engine.h"
#include "kv_cache/kv_cache.h"
#include "model/config.h"

namespace baleen {

class StepAdmission {
 public:
  /// `config` of the whole model. `may_be_empty`: steps without rows are run too. All referenced outlive
  /// this.
  StepAdmission(const ModelConfig& config, const EngineLimits& limits, const CacheCapacity& cache,
                bool may_be_empty, SequenceTable& sequences, const QueuedSteps& queued);

  /// Takes pages for every input's tokens, or for none where it fails.
  [[nodiscard]] std::optional<Failure> admit(std::span<const StepInput> inputs);
  [[nodiscard]] std::optional<Failure> check_drafts(std::span<const DraftInput> inputs,
                                                    std::int64_t depth) const;

 private:
  [[nodiscard]] std::optional<Failure> check(std::span<const StepInput> inputs) const;
  [[nodiscard]] std::optional<Failure> check_token(TokenId token, std::int64_t position) const;
  [[nodiscard]] std::optional<Failure> take_pages(std::span<const StepInput> inputs);
  [[nodiscard]] Failure no_room(std::int64_t position) const;
  [[nodiscard]] bool is_too_few(std::int64_t num_rows) const { return num_rows == 0 && !may_be_empty_; }

  const ModelConfig& config_;
  const EngineLimits& limits_;
  const CacheCapacity& cache_;
  bool may_be_empty_;
  SequenceTable& sequences_;
  const QueuedSteps& queued_;
};

}  // namespace baleen
