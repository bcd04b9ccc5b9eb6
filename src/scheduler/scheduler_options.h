/// What a scheduler may take of an engine, and how it divides it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "engine/step_engine.h"
#include "scheduler/step_plan.h"

namespace baleen {

struct SchedulerOptions {
  std::int64_t max_queue = 256;       ///< requests waiting for admission; one more is refused
  std::int64_t max_batch_tokens = 0;  ///< limit of a step; 0: the engine's
  std::int64_t speculate = 0;         ///< draft tokens a step; at most the engine's limit
  bool draft_schedule = true;         ///< fewer where more do not pay (DraftSchedule); else always as many
  /// A chain of drafts ends before the first whose chance of being accepted the draft head puts below this;
  /// 0: none does. Above 0 the engine must tell confidences.
  double draft_threshold = 0;
  /// Called in the loop's thread with a sentence for whoever runs the server; none: silence.
  std::function<void(const std::string&)> warn = nullptr;
  /// Tokens of a step that prompts may take while others decode; 0: half of max_batch_tokens.
  std::int64_t prefill_share_tokens = 0;
};

/// Of an engine, as far as the options use it.
[[nodiscard]] EngineLimits within(EngineLimits limits, const SchedulerOptions& options);
/// `limits` are within the options.
[[nodiscard]] StepBudget step_budget(const EngineLimits& limits, const SchedulerOptions& options);
/// Requests that may run at a time so that all of them can be in every step.
[[nodiscard]] inline std::int64_t max_running(const EngineLimits& limits) {
  return std::min({limits.max_sequences, limits.max_batch_tokens, limits.max_logit_rows});
}
/// Draft tokens of one request in a step.
[[nodiscard]] inline std::int64_t most_drafts(const EngineLimits& limits, const SchedulerOptions& options) {
  return std::min(options.speculate, limits.max_draft_tokens);
}

}  // namespace baleen
