/// DRY: the longer the repetition that a token would prolong, the less likely it becomes.
/// (source: the sampler of that name in llama.cpp, whose results these are)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensor/ragged_batch.h"

namespace baleen {

/// What repetitions do not reach across, in tokens of one vocabulary: by the token that a breaker begins in,
/// the tokens that complete it there; none after a token that holds a whole one.
using SequenceBreakers = std::unordered_map<TokenId, std::vector<std::vector<TokenId>>>;

/// Names and defaults are those of llama.cpp.
struct DryParams {
  /// Breakers of a request, and the bytes of each.
  static constexpr std::size_t kMaxBreakers = 64, kMaxBreakerBytes = 40;

  double multiplier = 0;            ///< scales the penalty; 0: none
  double base = 1.75;               ///< the penalty grows by it with each token of a repetition
  std::int64_t allowed_length = 2;  ///< repetitions of so many tokens cost `multiplier`, shorter ones nothing
  std::int64_t penalty_last_n =
      -1;  ///< tokens to look for repetitions in: the latest; -1: all; 0: no penalty
  std::shared_ptr<const SequenceBreakers> breakers = nullptr;  ///< null: none

  [[nodiscard]] bool penalises() const { return multiplier > 0 && penalty_last_n != 0; }
};

/// The tokens of one sequence so far. Tokens of the prompt count like those of the reply.
class DryPenalty {
 public:
  explicit DryPenalty(DryParams params) : params_(std::move(params)) {}

  void observe(std::span<const TokenId> ids) { tokens_.insert(tokens_.end(), ids.begin(), ids.end()); }

  /// Subtracts multiplier * base^(n - allowed_length) from the logit of each token that followed earlier what
  /// the sequence ends with now, n tokens of it (the most, where it followed several times; none of a breaker
  /// or before one), where n >= allowed_length. Tokens that hold a whole breaker go free. A finite logit
  /// stays finite. Linear in the tokens looked at, by their prefix function; allocates only as they grow.
  void penalise(std::span<float> logits);

 private:
  /// Tokens at the end of `recent` that no breaker stands in.
  [[nodiscard]] std::int64_t unbroken_tokens(std::span<const TokenId> recent) const;

  DryParams params_;
  std::vector<TokenId> tokens_;
  std::vector<std::int64_t> matches_;
  std::unordered_map<TokenId, std::int64_t> longest_;  ///< repetition that each token would prolong
};

}  // namespace baleen
