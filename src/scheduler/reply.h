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
#include "generation/reply_stream.h"
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

  /// The next token, from the logits after everything before it. Fails as `Sampler::sample` does. Not after
  /// the end.
  [[nodiscard]] Result<TokenId> sample(std::span<const float> logits);

  /// How an engine that chooses may choose the token after the next `ahead` ones; nothing where it takes more
  /// than logits.
  [[nodiscard]] std::optional<SampleRow> draw_row(std::uint64_t ahead) const;
  /// The next token, chosen by `draw_row(0)`.
  void take(TokenId token);

  /// Reports the logprob of a token of the prompt, from the logits after all before it. Empty, or a sentence.
  [[nodiscard]] std::string score_prompt(std::span<const float> logits, TokenId token);

  /// How it ended, once it has.
  [[nodiscard]] std::optional<ReplyEnd> end() const { return end_; }
  [[nodiscard]] const std::string& stop_string() const { return stop_string_; }
  [[nodiscard]] std::int64_t num_tokens() const { return num_tokens_; }
  [[nodiscard]] std::int64_t tokens_left() const { return max_tokens_ - num_tokens_; }
  [[nodiscard]] std::uint64_t seed() const { return sampler_.seed(); }

  /// What came since the last call. `last`: nothing will follow, so text held back comes too.
  [[nodiscard]] ReplyPiece take_piece(bool last);

  [[nodiscard]] DraftChain begin_drafts() const { return {.constraint = constraint_}; }
  /// Guesses one token more, with the draw that will choose it, from the draft model's logits. False,
  /// changing nothing, when the logits are no good or the reply would be over.
  [[nodiscard]] bool extend(DraftChain& chain, std::span<const float> logits);
  /// The same with a guess made by `draw_row`.
  [[nodiscard]] bool extend(DraftChain& chain, TokenId guess) const;

 private:
  [[nodiscard]] std::span<const std::uint64_t> mask_of(std::optional<ReplyConstraint>& constraint);
  /// Text, rules and end, after a token was chosen.
  void append(const SampledToken& token);
  /// A stop string in the text that was held back until now comes before `end`.
  void end(ReplyEnd end);
  [[nodiscard]] bool is_stop(TokenId token) const;
  void show(const MarkedText& text);

  std::vector<TokenId> stop_tokens_;
  std::vector<std::string> stops_;
  std::int64_t max_tokens_;
  Sampler sampler_;
  std::optional<ReplyConstraint> constraint_;
  TokenMask mask_;
  ReplyStream stream_;
  std::int64_t num_tokens_ = 0;
  ReplyPiece piece_;
  std::optional<ReplyEnd> end_;
  std::string stop_string_;
};

}  // namespace baleen
