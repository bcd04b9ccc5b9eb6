/// Which tokens may be drawn. Order the vocabulary by falling logit, equal logits by rising id: top-k, top-p
/// and min-p each keep a prefix of that one order. So the kept set is just the last token kept, filters
/// compose by taking the shorter prefix, and nothing is ever sorted: a prefix is found by counting and by
/// partial selection.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tensor/ragged_batch.h"

namespace baleen {

struct Candidate {
  float logit;
  TokenId id;

  [[nodiscard]] friend bool operator==(const Candidate&, const Candidate&) = default;
  /// Whether this one comes before `other` in the order above. Neither logit is NaN.
  [[nodiscard]] bool before(const Candidate& other) const {
    return logit != other.logit ? logit > other.logit : id < other.id;
  }
};

/// The last candidate kept; it and every candidate before it may be drawn.
using CandidateCut = Candidate;

inline constexpr CandidateCut kKeepAll{-std::numeric_limits<float>::infinity(),
                                       std::numeric_limits<TokenId>::max()};

[[nodiscard]] inline bool keeps(const CandidateCut& cut, const Candidate& candidate) {
  return !cut.before(candidate);
}

/// Keeps logits whose probability at `temperature` is at least `min_p` times that of the largest logit,
/// `max`.
[[nodiscard]] CandidateCut min_p_cut(float max, double temperature, double min_p);

/// Fills `weights` as `softmax_weights` does for the logits of ids [first_id, first_id + logits.size()), with
/// 0 for those that `cut` drops. False when that leaves nothing.
bool kept_weights(std::span<const float> logits, TokenId first_id, const CandidateCut& cut, float max,
                  double temperature, std::span<double> weights);

/// Finds the prefixes of top-k and top-p. Holds their working memory, so that repeated use does not allocate
/// once it has grown to what the logits at hand need: a few hundred candidates as a rule, the vocabulary at
/// worst. Both take time linear in the vocabulary whatever the logits are. Logits are free of NaN and
/// +infinity; `max` is the largest and finite. The result is never longer than `cut`, and always keeps a
/// token.
class CutFinder {
 public:
  /// Keeps k >= 1 tokens of those that `cut` keeps: exactly k, where ties fall to the lower ids.
  [[nodiscard]] CandidateCut top_k(std::span<const float> logits, const CandidateCut& cut, std::int64_t k);

  /// Keeps the shortest prefix with at least the share p (in (0, 1]) of the probability of all that `cut`
  /// keeps.
  [[nodiscard]] CandidateCut top_p(std::span<const float> logits, const CandidateCut& cut, float max,
                                   double temperature, double p);

 private:
  [[nodiscard]] CandidateCut shortest_prefix(float max, double temperature, double needed);

  std::vector<Candidate> candidates_;
  std::vector<double> bucket_mass_;
};

}  // namespace baleen
