#include "simulator/serving/server_setup.h"

#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "engine/engine_limits.h"
#include "engine/memory_plan.h"

namespace baleen {

ServerSetup server_setup(const ModelConfig& config, const EngineOptions& options,
                         const SchedulerOptions& scheduler, std::shared_ptr<StepTimes> times) {
  const EngineOptions complete = resolved(options, config);
  return {.geometry = cache_geometry(config, complete),
          // How weights are stored decides nothing about the cache.
          .capacity = plan_memory(config, StorageFormats(), complete).capacity,
          .reserved_tails = complete.reserved_tails,
          .limits = engine_limits(config, complete),
          .scheduler = scheduler,
          .bounded_replay_tokens = complete.bounded_replay_tokens,
          .reach = {.window_tokens = config.sliding_window, .index_top_k = config.index_topk},
          .times = std::move(times)};
}

void check(const ServerSetup& setup) {
  BALEEN_CHECK(setup.times != nullptr);
  const EngineLimits& limits = setup.limits;
  if (limits.max_batch_tokens < 1 || limits.max_sequences < 1 || limits.max_logit_rows < 1) {
    fail("a server of {} sequences, {} tokens and {} logit rows a step: at least one of each is possible",
         limits.max_sequences, limits.max_batch_tokens, limits.max_logit_rows);
  }
  if (limits.context_tokens < 1 || setup.capacity.num_pages < 1 || setup.capacity.num_window_pages < 1) {
    fail(
        "a cache of {} pages and {} window pages for a context of {} tokens: at least one of each is "
        "possible",
        setup.capacity.num_pages, setup.capacity.num_window_pages, limits.context_tokens);
  }
  if (setup.capacity.num_state_slots < limits.max_sequences) {
    fail("a cache of {} state slots for {} sequences: every sequence wants one",
         setup.capacity.num_state_slots, limits.max_sequences);
  }
}

}  // namespace baleen
