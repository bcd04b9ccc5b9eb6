#include "simulator/graph/expert_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace baleen {

ExpertRouting::ExpertRouting(std::int64_t num_experts, std::int64_t num_chosen, double zipf)
    : shares_(static_cast<std::size_t>(num_experts)) {
  const auto chosen = static_cast<double>(std::min(num_chosen, num_experts));
  if (zipf == 0 || num_chosen >= num_experts) {
    std::ranges::fill(shares_, chosen / static_cast<double>(num_experts));
    even_ = true;
    return;
  }
  // Choosing one after the other in proportion to weights is the order in which clocks of these rates ring:
  // at the time when `chosen` have rung on average, each has rung with a probability of 1 - exp(-weight x
  // time).
  std::vector<double> weights;
  for (std::int64_t rank = 0; rank < num_experts; ++rank)
    weights.push_back(std::pow(static_cast<double>(rank + 1), -zipf));
  const auto rung = [&](double time) {
    return std::accumulate(weights.begin(), weights.end(), 0.0,
                           [&](double sum, double weight) { return sum - std::expm1(-weight * time); });
  };
  double low = 0, high = 1;
  while (rung(high) < chosen) high *= 2;
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (rung(middle) < chosen ? low : high) = middle;
  }
  std::ranges::transform(weights, shares_.begin(),
                         [&](double weight) { return -std::expm1(-weight * high); });
}

double ExpertRouting::distinct(double begin, double end, double num_tokens) const {
  if (even_) return (end - begin) * distinct_share(num_tokens);
  double sum = 0;
  const auto last = std::min(static_cast<double>(shares_.size()), std::ceil(end));
  for (auto rank = static_cast<std::int64_t>(begin); static_cast<double>(rank) < last; ++rank) {
    const auto first = static_cast<double>(rank);
    const double part = std::min(end, first + 1) - std::max(begin, first);
    sum += part * (1 - std::pow(1 - share(rank), num_tokens));
  }
  return sum;
}

double ExpertRouting::distinct_share(double num_tokens) const {
  if (even_) return 1 - std::pow(1 - share(0), num_tokens);
  return distinct(num_tokens) / static_cast<double>(shares_.size());
}

double ExpertRouting::distinct(double num_tokens) const {
  return distinct(0, static_cast<double>(shares_.size()), num_tokens);
}

}  // namespace baleen
