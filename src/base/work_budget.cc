#include "base/work_budget.h"

#include <limits>

namespace baleen {
namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

// Work is spent deep inside of parsers and compilers, which have no other reason to know who calls them.
thread_local std::int64_t units_left = kUnbounded;

}  // namespace

WorkScope::WorkScope(std::int64_t units) : outer_(units_left) { units_left = units; }
WorkScope::~WorkScope() { units_left = outer_; }

void spend_work(std::int64_t units) {
  if (units_left == kUnbounded) return;
  if (units > units_left) {
    units_left = 0;
    throw WorkExceeded();
  }
  units_left -= units;
}

}  // namespace baleen
