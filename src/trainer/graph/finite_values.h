/// Values that no training continues from.
#pragma once

#include <cmath>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/number.h"

namespace baleen {

/// Throws `Error` with `name`, the place and the value of the first NaN or infinity.
inline void check_finite(std::string_view name, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    fail("{}: value {} is {}; expected finite numbers", name, grouped(static_cast<std::int64_t>(i)),
         values[i]);
  }
}

}  // namespace baleen
