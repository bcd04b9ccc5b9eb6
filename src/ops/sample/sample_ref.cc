#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "ops/sample/sample.h"

namespace baleen {
namespace {

TokenId sample_row(std::span<const float> logits, const SampleRow& how) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float max = -kInfinity;
  for (const float logit : logits) {
    if (std::isnan(logit)) return kNoToken;
    max = std::max(max, logit);
  }
  if (std::isinf(max)) return kNoToken;
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit_of = [&](TokenId id) { return logits[static_cast<std::size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logit_of(a) > logit_of(b); });
  if (how.temperature < kGreedyTemperature) return order[0];

  const auto weight_of = [&](TokenId id) {
    return std::exp((static_cast<double>(logit_of(id)) - static_cast<double>(max)) / how.temperature);
  };
  if (how.min_p > 0.0) {
    const double lowest = static_cast<double>(max) + how.temperature * std::log(how.min_p);
    while (static_cast<double>(logit_of(order.back())) < lowest) order.pop_back();
  }
  if (how.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(how.top_k)));
  if (how.top_p < 1.0) {
    double total = 0.0, prefix = 0.0;
    for (const TokenId id : order) total += weight_of(id);
    std::size_t kept = 0;
    while (kept < order.size() && prefix < how.top_p * total) prefix += weight_of(order[kept++]);
    order.resize(kept);
  }
  std::sort(order.begin(), order.end());
  double total = 0.0;
  for (const TokenId id : order) total += weight_of(id);
  double target = how.uniform * total;
  TokenId chosen = kNoToken;
  for (const TokenId id : order) {
    const double weight = weight_of(id);
    if (weight == 0.0) continue;
    chosen = id;  // the last one, should rounding lead past the end
    if (target < weight) break;
    target -= weight;
  }
  return chosen;
}

}  // namespace

void sample_ref(const SampleArgs& args) {
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.rows.size()), args.logits.extent(0));
  for (std::size_t row = 0; row < args.rows.size(); ++row) {
    args.ids[row] = sample_row(args.logits.row(static_cast<std::int64_t>(row)), args.rows[row]);
  }
}

}  // namespace baleen
