/// Logits to the id of the next token.
///
/// Order of operations, that of vLLM: logit bias, repetition penalty, frequency penalty, presence penalty,
/// DRY penalty (which is not vLLM's; llama.cpp has it there); at temperature 0 the largest logit, the lowest
/// id among equals; else temperature, min-p, top-k, top-p, and one draw from the softmax of what is left.
/// Each of the three filters works on what the one before left.
/// A mask comes before everything but the penalties: the rest happens as if the vocabulary held only what it
/// allows.
///
/// Logprobs are those of the model: the log-softmax of the logits as they came, before all of the above.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "ops/sample/sample.h"
#include "sampling/candidate_cut.h"
#include "sampling/sampling_params.h"
#include "sampling/softmax_weights.h"
#include "sampling/token_history.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct TokenLogprob {
  TokenId id;
  double logprob;  ///< natural logarithm of the model's probability

  [[nodiscard]] friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct SampledToken {
  TokenId id = 0;
  /// Absent when `num_logprobs` is kNoLogprobs.
  std::optional<double> logprob = std::nullopt;
  /// The `num_logprobs` likeliest tokens, likeliest first, equals by rising id; the sampled one need not be
  /// among them. Shorter when fewer tokens have any probability. Points into the sampler, until its next
  /// `sample`.
  std::span<const TokenLogprob> top_logprobs = {};
};

/// The choices of one sequence, from its first output token to its last. Not thread-safe; sequences are
/// independent.
///
/// The n-th draw depends on the seed, on n and on the logits alone, never on what else is in the batch. Time
/// per token is linear in the vocabulary whatever the logits are; nothing is allocated after the first few
/// tokens.
class Sampler {
 public:
  /// `params.validate(vocab_size)` is empty. Without a seed, takes one from the system.
  Sampler(SamplingParams params, std::int32_t vocab_size);

  /// Ids inside the vocabulary. Matters to the repetition and DRY penalties only; may come in pieces.
  void observe_prompt(std::span<const TokenId> ids);

  /// Chooses from [vocab_size] logits, and counts the choice as output. `mask` has a bit per token (bit id %
  /// 64 of word id / 64): tokens whose bit is 0 are never drawn; an empty mask allows all. Fails, changing
  /// nothing, on logits that are NaN or +infinity, or -infinity for all that is allowed; -infinity otherwise
  /// means never.
  Result<SampledToken> sample(std::span<const float> logits, std::span<const std::uint64_t> mask = {});

  /// What `sample` would choose with the draw that comes `ahead` draws after the next, counting nothing. For
  /// drafts: a guess at logits that is close to them mostly gives the same token. Penalties see the output up
  /// to now.
  [[nodiscard]] Result<TokenId> preview(std::span<const float> logits, std::span<const std::uint64_t> mask,
                                        std::uint64_t ahead);

  /// What the model thought of `id` at these logits: its logprob and the likeliest tokens, as `sample`
  /// reports them.
  /// Counts nothing. Wants `num_logprobs`; fails as `sample` does on logits that are no good.
  [[nodiscard]] Result<SampledToken> score(std::span<const float> logits, TokenId id);

  /// How a device may make the draw that comes `ahead` draws after the next, as `sample` would; nothing where
  /// more than a row of logits decides it (penalties, biases) or where logprobs are wanted.
  [[nodiscard]] std::optional<SampleRow> draw_row(std::uint64_t ahead) const;
  /// Counts `id` as output, chosen by a device by `draw_row(0)`.
  void take(TokenId id);
  /// Counts `id` as output, which comes whatever the logits say; its draw counts as made. `logits`: for its
  /// logprobs, if these are wanted, with which it fails as `score` does.
  Result<SampledToken> force(std::span<const float> logits, TokenId id);

  /// The seed in use, given or taken: it repeats the text.
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  /// `raw` are the extremes of `logits`.
  [[nodiscard]] Result<TokenId> choose(std::span<const float> logits, const LogitExtremes& raw,
                                       std::span<const std::uint64_t> mask, std::uint64_t draw_idx);
  [[nodiscard]] std::span<const float> adjusted(std::span<const float> logits);
  /// Index of the token, not its id where `logits` are those of a mask.
  [[nodiscard]] std::size_t draw(std::span<const float> logits, float max, std::uint64_t draw_idx);
  void count(TokenId id);
  void find_top_logprobs(std::span<const float> logits, double log_sum);

  SamplingParams params_;
  std::int32_t vocab_size_;
  std::uint64_t seed_;
  std::uint64_t num_sampled_ = 0;
  std::optional<TokenHistory> history_;  // only with a penalty of counts
  std::optional<DryPenalty> dry_;        // only with that penalty
  std::vector<float> scores_;            // only with a penalty, a bias or a mask
  std::vector<double> chunk_mass_;       // of each kWeightChunk tokens
  CutFinder cut_finder_;
  std::array<TokenLogprob, SamplingParams::kMaxLogprobs> top_{};
  std::size_t num_top_ = 0;
};

}  // namespace baleen
