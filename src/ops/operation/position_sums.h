/// Sums over positions in closed form, so that pricing a step of a million positions takes no time.
///
/// With the 1-based count m of tokens that a query sees, itself included, `m div r` compressed entries are
/// visible to it. The sum over the queries of a chunk [start, end) is the sum at `end` less the sum at
/// `start`.
#pragma once

#include <algorithm>
#include <cstdint>

namespace baleen {

/// F_r(x): sum over m = 1 .. x of m div r. x >= 0, r >= 1.
[[nodiscard]] constexpr std::int64_t sum_of_visible(std::int64_t x, std::int64_t ratio) {
  const std::int64_t whole = x / ratio, rest = x % ratio;
  return ratio * (whole * (whole - 1) / 2) + whole * (rest + 1);
}

/// G_{r,K}(x): sum over m = 1 .. x of min(K, m div r): at most K of the visible entries each. K >= 1.
[[nodiscard]] constexpr std::int64_t sum_of_selected(std::int64_t x, std::int64_t ratio,
                                                     std::int64_t most_selected) {
  const std::int64_t last_below = ratio * most_selected - 1;  // up to here all visible entries are selected
  return sum_of_visible(std::min(x, last_below), ratio) +
         most_selected * std::max<std::int64_t>(0, x - last_below);
}

/// W_n(x): sum over m = 1 .. x of min(m, window): positions of a sliding window, the query's own included.
[[nodiscard]] constexpr std::int64_t sum_of_window(std::int64_t x, std::int64_t window) {
  return sum_of_selected(x, 1, window);
}

}  // namespace baleen
