/// One reply: a prompt goes in by chunks, tokens come out one at a time, as text that is safe to show.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/reply_divider.h"
#include "base/reply_end.h"
#include "engine/step_engine.h"
#include "generation/reply_ending.h"
#include "sampling/sampler.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

struct GenerationRequest {
  std::vector<TokenId> prompt;  ///< what the sequence has not seen yet; at least one token
  /// Ids of the sequence before `prompt`: they count for the repetition and DRY penalties.
  std::span<const TokenId> history;
  SamplingParams sampling;
  std::vector<std::string> stops;                   ///< stop strings in the reply's content, not shown
  MakeReplyDivider make_divider = {};               ///< says what is content
  std::vector<TokenId> stop_tokens;                 ///< end the reply, not shown
  std::int64_t max_tokens = 0;                      ///< 0: as many as the context holds
  std::optional<ThinkingLimits> thinking = {};      ///< where the prompt opened the reply's thinking
  std::optional<RepetitionLimits> repetition = {};  ///< none: nothing is a loop
};

/// What was generated, and how long it took.
struct Generated {
  std::vector<TokenId> tokens;  ///< sampled, the stop token included
  std::string text;             ///< as shown
  ReplyEnd end = ReplyEnd::kLength;
  ThinkingEnd thinking_end = ThinkingEnd::kNothing;
  std::uint64_t seed = 0;
  std::int64_t prompt_tokens = 0;
  double prompt_seconds = 0;  ///< until the first token was sampled
  double decode_seconds = 0;  ///< from then on
  /// Tokens that the sequence has seen: all but the last sampled one, or all where the engine ran ahead of an
  /// end that it could not know of.
  std::int64_t fed_tokens = 0;
};

struct GenerationCallbacks {
  std::function<void(std::string_view text)> on_text;                    ///< more text to show
  std::function<void(const SampledToken& token)> on_token;               ///< every token, before its text
  std::function<void(std::int64_t done, std::int64_t total)> on_prompt;  ///< after each prompt chunk
  std::function<bool()> cancelled;                                       ///< asked between steps
};

/// Continues `sequence` of `engine`. Fails as Engine::step and Sampler::sample do; the sequence then keeps
/// what it has seen and must be closed. Callbacks may be empty.
Result<Generated> generate(StepEngine& engine, const Tokenizer& tokenizer, SequenceId sequence,
                           const GenerationRequest& request, const GenerationCallbacks& callbacks);

}  // namespace baleen
