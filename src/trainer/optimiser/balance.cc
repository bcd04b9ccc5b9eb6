#include "trainer/optimiser/balance.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace baleen {
namespace {

std::int64_t sum_of(std::span<const std::int64_t> load) {
  return std::accumulate(load.begin(), load.end(), std::int64_t{0});
}

}  // namespace

void update_bias(std::span<const std::int64_t> load, double speed, std::span<float> bias) {
  BALEEN_CHECK_EQ(load.size(), bias.size());
  const std::int64_t sum = sum_of(load);
  const auto num_experts = static_cast<std::int64_t>(load.size());
  for (std::size_t e = 0; e < load.size(); ++e) {
    const std::int64_t below_mean = sum - num_experts * load[e];  // in whole numbers, so that 0 is 0
    const int sign = (below_mean > 0 ? 1 : 0) - (below_mean < 0 ? 1 : 0);
    bias[e] = static_cast<float>(bias[e] + speed * sign);
  }
}

LoadBalance load_balance(std::span<const std::int64_t> load) {
  const std::int64_t sum = sum_of(load);
  if (sum == 0) return {};
  const double mean = static_cast<double>(sum) / static_cast<double>(load.size());
  const auto [least, most] = std::ranges::minmax(load);
  return {.max_violation = static_cast<double>(most) / mean - 1,
          .smallest_share = static_cast<double>(least) / mean};
}

}  // namespace baleen
