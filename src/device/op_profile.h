/// Time and cost of operations, summed by name.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "ops/operation/operation.h"

namespace baleen {

struct OpRecord {
  std::int64_t calls = 0;
  double seconds = 0;
  OpCost cost;
};

class OpProfile {
 public:
  void add(std::string_view operation, double seconds, const OpCost& cost);
  void clear() { records_.clear(); }
  [[nodiscard]] const std::map<std::string_view, OpRecord>& records() const { return records_; }
  [[nodiscard]] OpRecord total() const;

 private:
  std::map<std::string_view, OpRecord> records_;  ///< names are literals
};

}  // namespace baleen
