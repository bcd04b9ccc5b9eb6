/// What is called before and after each operation that runs, to time it.
#pragma once

#include <string_view>

#include "ops/operation/operation.h"

namespace baleen {

class OperationTimer {
 public:
  virtual ~OperationTimer() = default;
  virtual void begin() = 0;
  /// `name` of the operation or fusion that ran since `begin`; it lives as long as the program.
  virtual void end(std::string_view name, const OpCost& cost) = 0;
};

}  // namespace baleen
