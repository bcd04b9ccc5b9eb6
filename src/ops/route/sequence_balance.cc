#include "ops/route/sequence_balance.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "numeric/top_k_indices.h"
#include "ops/route/route_backward.h"

namespace baleen {
namespace {

/// Scores of one token, and their sum.
template <class T>
struct TokenScores {
  std::vector<T> s;
  T sum = 0;

  explicit TokenScores(std::int64_t experts) : s(static_cast<std::size_t>(experts)) {}
  void take(const T* z) {
    for (std::size_t e = 0; e < s.size(); ++e) s[e] = route_score(z[e]);
    sum = std::accumulate(s.begin(), s.end(), T{0});
  }
};

/// f: tokens whose k largest scores hold the expert, the smaller id on ties, over their mean.
template <class T>
std::vector<T> loads(const SequenceBalanceValues<T>& v) {
  TokenScores<T> scores(v.experts);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(v.experts));
  for (std::int64_t t = 0; t < v.tokens; ++t) {
    scores.take(v.z + t * v.experts);
    for (const std::int32_t expert : top_k_indices<T>(scores.s, v.k))
      ++counts[static_cast<std::size_t>(expert)];
  }
  std::vector<T> f(counts.size());
  std::ranges::transform(counts, f.begin(), [&v](std::int64_t count) {
    return static_cast<T>(count * v.experts) / static_cast<T>(v.k * v.tokens);
  });
  return f;
}

}  // namespace

template <class T>
double sequence_balance_forward(const SequenceBalanceValues<T>& v) {
  const std::vector<T> f = loads(v);
  TokenScores<T> scores(v.experts);
  double loss = 0;
  for (std::int64_t t = 0; t < v.tokens; ++t) {
    scores.take(v.z + t * v.experts);
    loss += static_cast<double>(std::inner_product(f.begin(), f.end(), scores.s.begin(), T{0}) / scores.sum);
  }
  return loss / static_cast<double>(v.tokens);
}

template <class T>
void sequence_balance_backward(const SequenceBalanceValues<T>& v, T factor, T* dz) {
  const std::vector<T> f = loads(v);
  TokenScores<T> scores(v.experts);
  for (std::int64_t t = 0; t < v.tokens; ++t) {
    const T* z = v.z + t * v.experts;
    scores.take(z);
    const T mean = std::inner_product(f.begin(), f.end(), scores.s.begin(), T{0}) / scores.sum;
    const T of_token = factor / (static_cast<T>(v.tokens) * scores.sum);
    for (std::int64_t e = 0; e < v.experts; ++e)
      dz[t * v.experts + e] += of_token * (f[static_cast<std::size_t>(e)] - mean) * route_score_slope(z[e]);
  }
}

template double sequence_balance_forward(const SequenceBalanceValues<float>&);
template double sequence_balance_forward(const SequenceBalanceValues<double>&);
template void sequence_balance_backward(const SequenceBalanceValues<float>&, float, float*);
template void sequence_balance_backward(const SequenceBalanceValues<double>&, double, double*);

namespace {

/// Of a logit: its score (exponential, sum, logarithm, root), the sum of a token's, a comparison for the k
/// largest.
constexpr double kScoreOps = 6;

double num_logits(const SequenceBalanceValues<float>& v) { return static_cast<double>(v.tokens * v.experts); }

}  // namespace

OpCost sequence_balance_cost(const SequenceBalanceValues<float>& v) {
  OpCost cost;
  cost.scalar_ops = (kScoreOps + 2) * num_logits(v);  // division, and the mean over tokens
  cost.read_bytes = 4.0 * num_logits(v);
  return cost;
}

OpCost sequence_balance_backward_cost(const SequenceBalanceValues<float>& v) {
  OpCost cost;
  // The weighted sum over a token's scores (2), the difference to it, a division, the slope (4), a product.
  cost.scalar_ops = (kScoreOps + 9) * num_logits(v);
  cost.read_bytes = 2 * 4.0 * num_logits(v);
  cost.write_bytes = 4.0 * num_logits(v);
  return cost;
}

}  // namespace baleen
