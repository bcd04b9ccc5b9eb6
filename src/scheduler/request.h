/// A request as the scheduler sees it, and what it publishes about one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/marked_text.h"
#include "base/reply_divider.h"
#include "base/reply_end.h"
#include "generation/reply_ending.h"
#include "grammar/reply_constraint.h"
#include "sampling/sampler.h"
#include "sampling/sampling_params.h"
#include "tensor/ragged_batch.h"

namespace baleen {

enum class RequestId : std::int64_t {};

struct Request {
  std::vector<TokenId> prompt;         ///< at least one token
  SamplingParams sampling;             ///< valid for the vocabulary
  std::vector<std::string> stops;      ///< stop strings in the reply's content, not shown
  MakeReplyDivider make_divider = {};  ///< says what is content
  std::vector<TokenId> stop_tokens;    ///< end the reply, not shown
  /// Of the prompt: where parts end that others have in common (StepEngine::keep_tail).
  std::vector<std::int64_t> section_ends;
  std::int64_t max_tokens = 0;  ///< 0: as many as the context holds
  std::optional<ThinkingLimits> thinking =
      {};  ///< where the prompt opened the thinking; `rules` then start in it
  std::optional<RepetitionLimits> repetition = {};  ///< none: nothing is a loop
  bool score_prompt =
      false;  ///< logprobs of the prompt's tokens too (`sampling.num_logprobs`): nothing of it is cached
  bool no_reply = false;            ///< ends with the prompt
  bool wants_progress = false;      ///< calls `ReplySink::progress`
  int priority = 0;                 ///< higher goes first; equals by arrival
  std::optional<ReplyRules> rules;  ///< none: any token
  /// Starts only after that request's prompt is in the cache (or gone): choices of one prompt compute it
  /// once.
  std::optional<RequestId> after_prompt_of;
};

/// One sampled token, unless it ended the reply as a stop token. Its text may be part of a character.
struct ReplyToken {
  TokenId id = 0;
  std::optional<double> logprob;
  std::vector<TokenLogprob> top_logprobs;
};

/// What one step added to a reply: tokens, and the text that became safe to show (of these or earlier
/// tokens).
struct ReplyPiece {
  std::vector<ReplyToken> prompt_tokens;  ///< tokens of a scored prompt, from its second on
  std::vector<ReplyToken> tokens;
  MarkedText text;
};

struct ReplySummary {
  ReplyEnd end = ReplyEnd::kLength;
  ThinkingEnd thinking_end = ThinkingEnd::kNothing;
  std::string stop_string;  ///< which one, for kStopString
  std::string error;        ///< for kFailed: a sentence
  std::uint64_t seed = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< how much of the prompt the cache had at first admission
  std::int64_t reply_tokens = 0;   ///< the stop token included
  /// What speculative decoding drafted, and what was right.
  std::int64_t drafted_tokens = 0, accepted_tokens = 0;
  std::int64_t steps = 0;  ///< that decoded: (reply_tokens - 1) / steps tokens a step
  std::int64_t preemptions = 0;
  double queue_seconds = 0;        ///< until first admitted
  double first_token_seconds = 0;  ///< since submission
  double total_seconds = 0;
};

/// Receives one reply, in the scheduler's thread: it must not block. `finished` comes once, last.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void piece(const ReplyPiece& piece) = 0;
  /// While the prompt is computed, for requests that want it: so many of its tokens are done.
  virtual void progress(std::int64_t /*done*/, std::int64_t /*total*/) {}
  virtual void finished(const ReplySummary& summary) = 0;
};

}  // namespace baleen
