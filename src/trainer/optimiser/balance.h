/// Balancing of experts without an auxiliary loss: the sign form of the update of the routing biases.
/// (source: training 6.1)
#pragma once

#include <cstdint>
#include <span>

namespace baleen {

/// bias_e <- bias_e + speed sign(mean - load_e), sign(0) = 0. `load` counts the selections of each expert
/// over the whole batch; both spans have E elements.
void update_bias(std::span<const std::int64_t> load, double speed, std::span<float> bias);

/// Of one layer; zeros where no token was routed.
struct LoadBalance {
  double max_violation = 0;   ///< largest load over the mean, minus 1: 0 is perfect
  double smallest_share = 0;  ///< smallest load over the mean: 1 is perfect
};

[[nodiscard]] LoadBalance load_balance(std::span<const std::int64_t> load);

}  // namespace baleen
