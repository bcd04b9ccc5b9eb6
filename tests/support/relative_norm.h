/// How far values are from others, all together.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace baleen::test {

/// ||got - want|| / ||want||; `got` has as many values.
inline double relative_norm(std::span<const float> got, std::span<const float> want) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    off += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    all += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(off / all);
}

}  // namespace baleen::test
