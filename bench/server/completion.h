/// One streamed completion and what is measured of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/server/stream_client.h"

namespace baleen {

/// Which server, and how it is asked.
struct LoadTarget {
  Endpoint endpoint;
  std::string model;
  bool chat = true;  ///< chat completions, else completions
  int pid = 0;       ///< of the server, 0: unknown, memory is not measured
};

class Completion {
 public:
  Completion(const LoadTarget& target, const std::string& prompt, int max_tokens);

  [[nodiscard]] StreamClient& client() { return *client_; }
  [[nodiscard]] bool finished() const { return client_->finished(); }
  /// Whether it ended as it should: status 200, no error event, `[DONE]`.
  [[nodiscard]] bool good() const { return client_->status() == 200 && done_ && error_.empty(); }
  [[nodiscard]] std::string why_bad() const;

  /// As the server counts where it said so, else the number of pieces of text that came.
  [[nodiscard]] std::int64_t num_tokens() const { return usage_tokens_.value_or(num_pieces_); }
  [[nodiscard]] std::int64_t prompt_tokens() const { return prompt_tokens_; }
  [[nodiscard]] std::int64_t cached_tokens() const { return cached_tokens_; }
  /// From the request to the first text; of an empty answer, to its end.
  [[nodiscard]] std::optional<double> first_token_seconds() const { return first_token_seconds_; }
  /// Between one piece of text and the next. Pieces that arrive together are zero apart.
  [[nodiscard]] const std::vector<double>& gaps() const { return gaps_; }

 private:
  void on_data(std::string_view data, Clock::time_point when);

  bool done_ = false;
  std::string error_;
  std::int64_t num_pieces_ = 0, prompt_tokens_ = 0, cached_tokens_ = 0;
  std::optional<std::int64_t> usage_tokens_;
  std::optional<double> first_token_seconds_;
  std::optional<Clock::time_point> last_piece_;
  std::vector<double> gaps_;
  std::unique_ptr<StreamClient> client_;
};

/// Runs one to its end, at most `seconds`.
void run_alone(Completion& completion, double seconds);

}  // namespace baleen
