/// One request in the loop's hands, waiting or running.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/contender.h"
#include "scheduler/inbox.h"
#include "scheduler/reply.h"
#include "scheduler/request.h"

namespace baleen {

struct Job : Contender {
  explicit Job(Submission&& submission);

  /// The prompt, then what was sampled: what `num_tokens` counts.
  std::vector<TokenId> tokens;
  std::optional<Reply> reply;  ///< made at first admission, kept over preemptions
  bool sink_threw = false;
  std::int64_t num_scored = 1;  ///< tokens of a scored prompt whose logprobs are out; the first has none

  Request request;  ///< its prompt has moved to `tokens`
  const std::shared_ptr<ReplySink> sink;
  const double submitted_at;
  ReplySummary summary;

  void append(TokenId token);
  /// Makes `num_tokens` follow from the tokens and `num_pending`.
  void count_tokens();
  /// Hands on what the reply has grown by. A sink that throws is not called again but for the end.
  void publish(bool last);
  void report_progress(std::int64_t done);
  /// The summary's numbers are complete but for the reply's and the contender's own.
  void finish(ReplyEnd end, std::string error);
};

}  // namespace baleen
