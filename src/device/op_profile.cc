#include "device/op_profile.h"

namespace baleen {

void OpProfile::add(std::string_view operation, double seconds, const OpCost& cost) {
  OpRecord& record = records_[operation];
  ++record.calls;
  record.seconds += seconds;
  record.cost += cost;
}

OpRecord OpProfile::total() const {
  OpRecord sum;
  for (const auto& [name, record] : records_) {
    sum.calls += record.calls;
    sum.seconds += record.seconds;
    sum.cost += record.cost;
  }
  return sum;
}

}  // namespace baleen
