/// A bound on the work that one request may cost before it is admitted, in units and not in time: the same
/// request is always refused or never.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace baleen {

/// Not an `Error`: only who set the bound knows what it means.
class WorkExceeded : public std::runtime_error {
 public:
  WorkExceeded() : std::runtime_error("the work allowed here is used up") {}
};

/// While it lives, the work of this thread is counted against `units`. Scopes nest; the innermost counts.
class WorkScope {
 public:
  explicit WorkScope(std::int64_t units);
  ~WorkScope();
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  std::int64_t outer_;
};

/// Counts work of this thread; throws `WorkExceeded` when the scope's units are used up, and does nothing
/// outside of every scope. A unit is about 10 ns: a byte tokenised, an edge of an automaton, a tenth of a
/// graph's node.
void spend_work(std::int64_t units);

}  // namespace baleen
