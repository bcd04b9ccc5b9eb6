/// What the load generator does to a server. Each scenario is bounded in count and time and returns figures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/server/completion.h"

namespace baleen {

/// Completions one after the other in each of `num_streams` places, for `seconds`.
struct StreamsFigures {
  int num_streams = 0;
  double seconds = 0;
  std::int64_t requests = 0, errors = 0, tokens = 0;
  std::string first_error;
  double tokens_per_second = 0;
  double first_token_median = 0, first_token_p99 = 0;  ///< seconds
  double gap_median = 0, gap_p99 = 0;                  ///< seconds between tokens
  /// Resident bytes of the server after a quarter of the time and at the end; 0 without a process id.
  std::int64_t resident_warm = 0, resident_end = 0;
  std::vector<std::int64_t> resident;  ///< about once a second
};
StreamsFigures run_streams(const LoadTarget& target, int num_streams, double seconds, int max_tokens);

/// A fresh prompt of about `prompt_tokens`, asked twice: cold, then cached.
struct PrefixFigures {
  std::int64_t prompt_tokens = 0, cached_tokens = 0;  ///< of the last repetition, as the server says
  double cold_median = 0, cached_median = 0;          ///< seconds to the first token
  double ratio = 0;                                   ///< median of cold / cached
  std::int64_t errors = 0;
  std::string first_error;
};
PrefixFigures run_prefix(const LoadTarget& target, int prompt_tokens, int repetitions);

/// Streams on which nothing is sent: what they cost the server.
struct IdleFigures {
  int asked = 0, open = 0;
  std::int64_t resident_before = 0, resident_after = 0;
  double bytes_each = 0;  ///< 0 without a process id
};
IdleFigures run_idle(const LoadTarget& target, int num_clients, const std::string& path);

/// A client that opens a busy stream and never reads, beside a completion that does.
struct StallFigures {
  bool dropped = false;
  double dropped_after = 0;                       ///< seconds
  double gap_p99_before = 0, gap_p99_beside = 0;  ///< seconds between the other client's tokens
  std::int64_t errors = 0;                        ///< of the other client
};
StallFigures run_stall(const LoadTarget& target, const std::string& path, double seconds, int max_tokens);

/// Asks /v1/models for the first model's name. Throws `Error` when the server does not answer.
std::string first_model(Endpoint endpoint);

}  // namespace baleen
