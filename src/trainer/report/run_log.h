/// What the log of a training run (trainer/run/training_log.h) says, as series over its steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace baleen {

struct SeriesPoint {
  double step = 0;
  double value = 0;
};
using Series = std::vector<SeriesPoint>;

struct LoggedContinuation {
  std::int64_t step = 0;
  std::string prompt;
  std::string text;
};

struct RunLog {
  std::string name;      ///< its folder's, without the way there
  Series loss;           ///< nats a target
  Series held_out;       ///< bits a byte
  Series reward;         ///< mean of a step's replies, where a run learns from rewards
  Series indexer_loss;   ///< nats a query, of all indexers, where they are trained
  Series balance_loss;   ///< sum over all routers, where the loss has it
  Series gradient_norm;  ///< before clipping
  Series learning_rate;
  Series tokens_per_second;
  std::vector<Series> violation;  ///< one for each block: the largest load over the mean, minus 1
  std::vector<LoggedContinuation> continuations;
  std::int64_t num_skipped = 0;  ///< steps whose loss or gradient was not finite
  std::int64_t num_damaged = 0;  ///< lines that are no JSON object with a step
};

/// Reads `folder`/log.jsonl, also of a run in progress. Values that are absent or no finite numbers are left
/// out of their series. Throws `Error` where there is no log, or no step in it.
[[nodiscard]] RunLog read_run_log(const std::string& folder);

}  // namespace baleen
