/// Calls in other shapes than the format's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "everyday_calls.h"

namespace baleen::test {

/// Another shape of the whole call. Empty where it does not fit.
struct ShapeDamage {
  const char* kind;
  std::function<std::string(const Call&, Random&)> text;
  bool is_clear = true;
};

[[nodiscard]] std::vector<ShapeDamage> shape_damages();

}  // namespace baleen::test
