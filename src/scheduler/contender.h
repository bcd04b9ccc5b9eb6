/// A request as those see it who decide what runs: no text, no tokens, only how many.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/step_engine.h"
#include "scheduler/draft_acceptance.h"
#include "scheduler/request.h"

namespace baleen {

struct Contender {
  RequestId id{};  ///< rises by arrival
  int priority = 0;
  std::optional<RequestId> after_prompt_of;  ///< as in Request
  std::int64_t prompt_tokens = 0;

  /// Everything the sequence must see: the prompt, then what was sampled. The newest sampled token is never
  /// fed yet, so one that decodes lacks one token, and one that comes back after a preemption lacks them all:
  /// there is no other difference between them.
  std::int64_t num_tokens = 0;
  /// Tokens that steps under way choose for it. The sequence can be fed them before anyone knows them, so
  /// `num_tokens` counts them too, but for one that ends the reply by its length.
  std::int64_t num_pending = 0;
  /// Drafts that its next step may hold: 0 unless the last step of the sequence gave the logits that the
  /// newest token was sampled from.
  std::int64_t most_drafts = 0;
  DraftHistory draft_record = {};
  bool wants_all_rows =
      false;  ///< logits of every token of the prompt, so its chunks are no longer than rows are free

  std::optional<SequenceId> sequence;  ///< while running
  std::int64_t matched_tokens = 0;     ///< how many of its tokens the cache had when the sequence was opened
  bool prompt_was_cached = false;      ///< all of the prompt was shared once: who waits for that may start
  /// Found no room (or lost it) when so many requests had ended; until one more has, asking again is
  /// pointless.
  std::optional<std::int64_t> no_room_since;
  std::int64_t preemptions = 0;
};

/// Who goes first: higher priority, then earlier arrival. A preempted request keeps its place, which is
/// before all that never ran.
struct MoreImportant {
  bool operator()(const Contender* a, const Contender* b) const {
    if (a->priority != b->priority) return a->priority > b->priority;
    return a->id < b->id;
  }
};

}  // namespace baleen
