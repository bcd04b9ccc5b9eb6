/// One request in the loop's hands, waiting or running.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/step_engine.h"
#include "scheduler/inbox.h"
#include "scheduler/reply.h"
#include "scheduler/request.h"

namespace baleen {

struct Job {
  explicit Job(Submission&& submission);

  /// Everything the sequence must see: the prompt, then what was sampled. The newest sampled token is never fed yet,
  /// so a job that decodes lacks one token, and one that comes back after a preemption lacks them all: there is no
  /// other difference between them.
  std::vector<TokenId> tokens;
  std::optional<Reply> reply;          ///< made at first admission, kept over preemptions
  std::optional<SequenceId> sequence;  ///< while running
  /// The last step of the sequence gave the logits that the newest token was sampled from: drafts can follow.
  bool may_draft = false;
  bool prompt_was_cached = false;   ///< all of the prompt was shared once: who waits for that may start
  std::int64_t matched_tokens = 0;  ///< of `tokens`, found in the cache when the sequence was opened
  /// Found no room (or lost it) when so many requests had ended; until one more has, asking again is pointless.
  std::optional<std::int64_t> no_room_since;
  bool sink_threw = false;

  const RequestId id;
  Request request;  ///< its prompt has moved to `tokens`
  const std::shared_ptr<ReplySink> sink;
  const double submitted_at;
  ReplySummary summary;

  /// Hands on what the reply has grown by. A sink that throws is not called again but for the end.
  void publish(bool last);
  /// The summary's numbers are complete but for the reply's own.
  void finish(ReplyEnd end, std::string error);
};

/// Who goes first: higher priority, then earlier arrival. A preempted request keeps its place, which is before all
/// that never ran.
struct MoreImportant {
  bool operator()(const Job* a, const Job* b) const {
    if (a->request.priority != b->request.priority) return a->request.priority > b->request.priority;
    return a->id < b->id;
  }
};

}  // namespace baleen
