/// The reply of one request while it grows: which token comes next, what it may show, whether it is over.
/// Knows no engine and no pages, and survives a preemption as it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "generation/reply_ending.h"
#include "grammar/reply_constraint.h"
#include "sampling/sampler.h"
#include "scheduler/request.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

/// Guesses at the next tokens of a reply, one after the other.
struct DraftChain {
  std::vector<TokenId> tokens;
  std::optional<ReplyConstraint> constraint;  ///< as it will be after `tokens`
};

class Reply {
 public:
  /// `request`'s own prompt does not matter, `prompt` does. At most `max_tokens` >= 1 tokens. The tokenizer
  /// outlives the reply.
  Reply(const Request& request, std::span<const TokenId> prompt, std::int32_t vocab_size,
        std::int64_t max_tokens, const Tokenizer& tokenizer,
        const std::shared_ptr<const MaskVocabulary>& vocabulary);

  /// The next token, from the logits after everything before it, or a forced one. Fails as `Sampler::sample`
  /// does. Not after the end.
  [[nodiscard]] Result<TokenId> sample(std::span<const float> logits);

  /// How an engine that chooses may choose the token after the next `ahead` ones; nothing where it takes more
  /// than logits.
  [[nodiscard]] std::optional<SampleRow> draw_row(std::uint64_t ahead) const;
  /// The next token: `chosen` by `draw_row(0)`, or a forced one.
  TokenId take(TokenId chosen);
  /// Whether one of the next `count` tokens may be another than logits and draws choose: as
  /// `ReplyEnding::may_force`.
  [[nodiscard]] bool may_force(std::int64_t count) const { return ending_.may_force(count); }

  /// Reports the logprob of a token of the prompt, from the logits after all before it. Empty, or a sentence.
  [[nodiscard]] std::string score_prompt(std::span<const float> logits, TokenId token);

  /// How it ended, once it has.
  [[nodiscard]] std::optional<ReplyEnd> end() const { return ending_.end(); }
  [[nodiscard]] ThinkingEnd thinking_end() const { return ending_.thinking_end(); }
  [[nodiscard]] const std::string& stop_string() const { return ending_.stop_string(); }
  [[nodiscard]] std::int64_t num_tokens() const { return ending_.num_tokens(); }
  [[nodiscard]] std::int64_t tokens_left() const { return ending_.tokens_left(); }
  [[nodiscard]] std::uint64_t seed() const { return sampler_.seed(); }

  /// What came since the last call. `last`: nothing will follow, so text held back comes too.
  [[nodiscard]] ReplyPiece take_piece(bool last);

  [[nodiscard]] DraftChain begin_drafts() const { return {.constraint = constraint_}; }
  /// Guesses one token more, with the draw that will choose it, from the draft model's logits; one that will
  /// be forced is known. False, changing nothing, when the logits are no good or the reply would be over.
  [[nodiscard]] bool extend(DraftChain& chain, std::span<const float> logits);
  /// The same with a guess that was chosen by `draw_row`.
  [[nodiscard]] bool extend(DraftChain& chain, TokenId chosen) const;

 private:
  [[nodiscard]] std::span<const std::uint64_t> mask_of(std::optional<ReplyConstraint>& constraint);
  /// Text, rules and end, after a token was chosen.
  void append(const SampledToken& token);

  Sampler sampler_;
  std::optional<ReplyConstraint> constraint_;
  TokenMask mask_;
  ReplyEnding ending_;
  ReplyPiece piece_;
};

}  // namespace baleen
