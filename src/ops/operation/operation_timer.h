/// What is called before and after each operation that runs, to time it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "ops/operation/operation.h"

namespace baleen {

/// Time of calls that are alike: the quickest of them, because the first may load kernels or weights.
struct CallTime {
  std::int64_t calls = 0;
  double seconds = 0;

  void add(double more) {
    seconds = calls == 0 ? more : std::min(seconds, more);
    ++calls;
  }
};

class OperationTimer {
 public:
  virtual ~OperationTimer() = default;
  virtual void begin() = 0;
  /// `name` of the operation or fusion that ran since `begin`; it lives as long as the program. The time is
  /// also added to `call`, where there is one, when it is known: it lives until then.
  virtual void end(std::string_view name, const OpCost& cost, CallTime* call) = 0;
};

}  // namespace baleen
