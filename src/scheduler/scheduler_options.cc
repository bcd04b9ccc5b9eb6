#include "scheduler/scheduler_options.h"

namespace baleen {

EngineLimits within(EngineLimits limits, const SchedulerOptions& options) {
  if (options.max_batch_tokens > 0) {
    limits.max_batch_tokens = std::min(limits.max_batch_tokens, options.max_batch_tokens);
  }
  return limits;
}

StepBudget step_budget(const EngineLimits& limits, const SchedulerOptions& options) {
  const std::int64_t share =
      options.prefill_share_tokens > 0 ? options.prefill_share_tokens : limits.max_batch_tokens / 2;
  return {.max_batch_tokens = limits.max_batch_tokens,
          .max_logit_rows = limits.max_logit_rows,
          .prefill_share_tokens = std::max<std::int64_t>(share, 1),
          .least_draft_room = limits.least_draft_room};
}

}  // namespace baleen
