/// What became of each simulated request, and what each server did: the raw result of a serving simulation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/serving/time_histogram.h"

namespace baleen {

enum class RequestEnd : std::uint8_t {
  kUnfinished,
  kFinished,
  kTurnedAway,  ///< the queue was full
  kAbandoned,   ///< its client would not wait for the first token any longer
  kRefused,     ///< can never run: `ServingResult::first_refusal` says why of the first one
};

/// Times in seconds since the simulation began.
struct RequestRecord {
  double arrival = 0;
  double admitted = 0;
  double first_token = 0;
  double finished = 0;  ///< when it ended, however it did
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< how much of the prompt the cache had at first admission
  std::int64_t output_tokens = 0;
  std::int64_t drafted_tokens = 0, accepted_tokens = 0;
  std::int64_t preemptions = 0;
  RequestEnd end = RequestEnd::kUnfinished;

  [[nodiscard]] friend bool operator==(const RequestRecord&, const RequestRecord&) = default;
};

/// Part of a pool, over time.
struct Occupancy {
  double seconds = 0;
  double in_use_seconds = 0, cached_seconds = 0;  ///< shares of the pool, weighted by time
  double most_in_use = 0;                         ///< share

  [[nodiscard]] double mean_in_use() const { return seconds > 0 ? in_use_seconds / seconds : 0; }
  [[nodiscard]] double mean_cached() const { return seconds > 0 ? cached_seconds / seconds : 0; }
  [[nodiscard]] friend bool operator==(const Occupancy&, const Occupancy&) = default;
};

struct ServerRecord {
  std::int64_t steps = 0;
  std::int64_t step_tokens = 0;  ///< fed in all steps
  double busy_seconds = 0;       ///< drafts included
  std::int64_t preemptions = 0;
  std::vector<std::int64_t> steps_by_batch;  ///< [sequences in the step]
  Occupancy pages, window_pages;             ///< looked at every few steps

  [[nodiscard]] friend bool operator==(const ServerRecord&, const ServerRecord&) = default;
};

struct ServingResult {
  std::vector<RequestRecord> requests;  ///< sorted by number
  std::vector<ServerRecord> servers;
  TimeHistogram gaps;  ///< between the tokens of a reply, as they arrive: those of one step come together
  std::string first_refusal;
};

}  // namespace baleen
