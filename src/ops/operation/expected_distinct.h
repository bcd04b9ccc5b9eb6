/// How many different things are chosen when none is preferred.
#pragma once

#include <cmath>

namespace baleen {

/// Of `num_items` things, those that at least one of `num_draws` draws takes, if each takes `per_draw`
/// different ones and knows nothing of the others: n (1 - (1 - k/n)^q). All, if a draw takes all. Choices
/// that resemble one another take fewer.
[[nodiscard]] inline double expected_distinct(double num_items, double per_draw, double num_draws) {
  if (per_draw >= num_items) return num_draws > 0 ? num_items : 0;
  if (num_draws == 1) return per_draw;
  return num_items * (1 - std::pow(1 - per_draw / num_items, num_draws));
}

}  // namespace baleen
