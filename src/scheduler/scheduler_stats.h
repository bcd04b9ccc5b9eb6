/// Counters of a scheduler since its start, and its state now.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/step_engine.h"

namespace baleen {

/// Drafts at one place of their chains.
struct DraftsAtDepth {
  std::int64_t drafted = 0;   ///< that steps checked
  std::int64_t accepted = 0;  ///< and all before them
};

/// submitted = waiting + running + finished + cancelled + failed. Refused ones were never submitted.
struct SchedulerStats {
  std::int64_t waiting = 0, running = 0;
  std::int64_t submitted = 0, finished = 0, cancelled = 0, failed = 0, refused = 0;
  /// What requests had, and what the cache had of it, when first admitted.
  std::int64_t prompt_tokens = 0, cached_tokens = 0;
  /// Of requests when first admitted, by `PrefixEnd`; whole pages that were cached and not found.
  std::array<std::int64_t, kPrefixEndNames.size()> prefix_ends{};
  std::int64_t lost_prefix_tokens = 0;
  std::int64_t reply_tokens = 0;
  std::int64_t drafted_tokens = 0, accepted_tokens = 0;
  /// Replies that ended because they looped, and those whose thinking was ended, of requests that ended.
  std::int64_t looping_replies = 0, looping_thinking = 0, thinking_over_budget = 0;
  std::int64_t draft_chains = 0;               ///< that steps checked, of one draft or more
  std::vector<DraftsAtDepth> drafts_by_depth;  ///< as many as a chain can have
  std::int64_t steps = 0, preemptions = 0;
  double step_seconds = 0;  ///< time while a step was under way, drafts included
  /// Time without a step while a request was there: the loop's own time between steps.
  double idle_seconds = 0;
  CacheUse cache;
};

}  // namespace baleen
