#include "ops/indexer_loss/indexer_loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "numeric/row_math.h"

namespace baleen {
namespace {

/// The entries that one query attends to, side by side.
template <class T>
struct QueryEntries {
  std::vector<std::int64_t> ids;
  std::vector<T> target;       ///< p
  std::vector<T> probability;  ///< softmax(c I)
  double log_sum = 0;          ///< ln Σ e^(c I)

  /// False where nothing is compared: no entry, or none with a share that a number holds.
  bool take(const IndexerLossValues<T>& v, std::int64_t t) {
    const std::uint8_t* visible = v.visible + t * v.entries;
    ids.clear();
    target.clear();
    probability.clear();
    for (std::int64_t s = 0; s < v.entries; ++s) {
      if (visible[s] == 0) continue;
      ids.push_back(s);
      target.push_back(v.share[t * v.entries + s]);
      probability.push_back(v.scale * v.score[t * v.entries + s]);
    }
    T total = 0;
    for (const T share : target) total += share;
    if (total == T{0}) return false;
    const auto size = static_cast<std::int64_t>(ids.size());
    row_math::scale(T{1} / total, target.data(), size);
    const T top = *std::ranges::max_element(probability);
    const T sum = row_math::exp_and_sum(top, probability.data(), size);
    row_math::scale(T{1} / sum, probability.data(), size);
    log_sum = static_cast<double>(top) + std::log(static_cast<double>(sum));
    return true;
  }
};

}  // namespace

template <class T>
double indexer_loss_forward(const IndexerLossValues<T>& v) {
  QueryEntries<T> entries;
  double loss = 0;
  for (std::int64_t t = 0; t < v.tokens; ++t) {
    if (!entries.take(v, t)) continue;
    for (std::size_t i = 0; i < entries.ids.size(); ++i) {
      const auto p = static_cast<double>(entries.target[i]);
      const auto score = static_cast<double>(v.scale * v.score[t * v.entries + entries.ids[i]]);
      if (p > 0) loss += p * (std::log(p) - (score - entries.log_sum));
    }
  }
  return loss;
}

template <class T>
void indexer_loss_backward(const IndexerLossValues<T>& v, T factor, T* dscore) {
  QueryEntries<T> entries;
  std::fill_n(dscore, v.tokens * v.entries, T{0});
  for (std::int64_t t = 0; t < v.tokens; ++t) {
    if (!entries.take(v, t)) continue;
    for (std::size_t i = 0; i < entries.ids.size(); ++i)
      dscore[t * v.entries + entries.ids[i]] =
          factor * v.scale * (entries.probability[i] - entries.target[i]);
  }
}

template double indexer_loss_forward(const IndexerLossValues<float>&);
template double indexer_loss_forward(const IndexerLossValues<double>&);
template void indexer_loss_backward(const IndexerLossValues<float>&, float, float*);
template void indexer_loss_backward(const IndexerLossValues<double>&, double, double*);

namespace {

/// Of an entry: share (2) and score (scale, largest, difference, exponential, sum, division) normalised.
constexpr double kNormaliseOps = 8;

/// A mark, a share and a score of each entry of each query.
double bytes_read(const IndexerLossValues<float>& v) {
  return 9.0 * static_cast<double>(v.tokens * v.entries);
}

}  // namespace

OpCost indexer_loss_cost(const IndexerLossValues<float>& v) {
  OpCost cost;
  // Two differences, a logarithm, a product, a sum.
  cost.scalar_ops = (kNormaliseOps + 5) * static_cast<double>(v.tokens * v.entries);
  cost.read_bytes = bytes_read(v);
  return cost;
}

OpCost indexer_loss_backward_cost(const IndexerLossValues<float>& v) {
  OpCost cost;
  cost.scalar_ops = (kNormaliseOps + 2) * static_cast<double>(v.tokens * v.entries);
  cost.read_bytes = bytes_read(v);
  cost.write_bytes = 4.0 * static_cast<double>(v.tokens * v.entries);
  return cost;
}

}  // namespace baleen
