/// Which values of an array are its largest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace baleen {

/// Indices of the `k` largest of `values`, at most as many, the largest first and the smaller index on ties.
template <class T>
[[nodiscard]] std::vector<std::int32_t> top_k_indices(std::span<const T> values, std::int64_t k) {
  std::vector<std::int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [values](std::int32_t i) { return values[static_cast<std::size_t>(i)]; };
  std::partial_sort(order.begin(), order.begin() + k, order.end(),
                    [&](std::int32_t left, std::int32_t right) {
                      return key(left) > key(right) || (key(left) == key(right) && left < right);
                    });
  order.resize(static_cast<std::size_t>(k));
  return order;
}

}  // namespace baleen
