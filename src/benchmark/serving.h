/// Clients of a benchmark: requests through the scheduler, as a server has them, without HTTP and text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rank_engine/rank_engine.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/scheduler_stats.h"
#include "simulator/serving/acceptance.h"

namespace baleen {

/// A closed loop: each client has one request under way and sends the next one when it ends.
struct ClosedLoop {
  std::int64_t clients = 1, requests = 1;  ///< at a time; in all
  std::int64_t prompt_tokens = 1, reply_tokens = 1;
  std::int64_t drafts = 0;  ///< tokens that a step drafts for a reply; as many as the engine has room for
  Acceptance acceptance;    ///< how often drafts are right
  SchedulerOptions scheduler = {};  ///< but for queue and drafts
};

/// From the first request's arrival to the last one's end, so that filling and emptying count too.
struct MeasuredServing {
  ClosedLoop load;
  double seconds = 0;
  double total_tokens_per_second = 0;  ///< prompts and replies
  double total_tokens_per_second_of_a_rank = 0;
  double reply_tokens_per_second = 0;
  double median_first_token_seconds = 0;     ///< since submission
  double median_seconds_between_tokens = 0;  ///< what a request waits for a token after its first
  std::int64_t steps = 0, preemptions = 0;
  std::int64_t drafted = 0, accepted = 0;  ///< tokens
  std::vector<DraftsAtDepth> drafts_by_depth;
};

/// Prompts are random and share no prefix; every reply has all its tokens. The engine has room for `clients`
/// sequences. Throws `Error` with the sentence of a request that failed.
[[nodiscard]] MeasuredServing measure_serving(ModelEngine& engine, const ClosedLoop& load);

[[nodiscard]] std::string to_text(const MeasuredServing& figures);
[[nodiscard]] nlohmann::ordered_json to_json(const MeasuredServing& figures);

}  // namespace baleen
