/// Damage to the value of one parameter.
#pragma once

#include <functional>
#include <vector>

#include "everyday_calls.h"

namespace baleen::test {

/// Damage to one value. False where the kind does not fit the parameter.
struct ValueDamage {
  const char* kind;
  std::function<bool(Parameter&, Random&)> apply;
  bool is_clear = true;
};

[[nodiscard]] std::vector<ValueDamage> value_damages();

}  // namespace baleen::test
