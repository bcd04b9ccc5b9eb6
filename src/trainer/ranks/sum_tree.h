/// The order in which gradients of micro-batches are summed: neighbours first, then neighbours of sums, as a
/// binary counter carries. Blocks of 2^n values, each summed so, give the same bits when their sums are:
/// ranks with as many micro-batches each, a power of two, end at the sum of one rank that has them all.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace baleen {

/// Holds at most log2(values) + 1 of them.
template <class Value>
class SumTree {
 public:
  /// The next value. `add(sum, value)` adds `value` to `sum`; what held `value` is then its to use again.
  template <class Add>
  void push(Value value, Add&& add) {
    std::int64_t level = 0;
    for (; !sums_.empty() && sums_.back().level == level; ++level) value = merge_last(std::move(value), add);
    sums_.push_back({level, std::move(value)});
  }

  /// The sum of all, of which there is one at least; the tree is empty then.
  template <class Add>
  [[nodiscard]] Value take(Add&& add) {
    Value sum = std::move(sums_.back().value);
    sums_.pop_back();
    while (!sums_.empty()) sum = merge_last(std::move(sum), add);
    return sum;
  }

 private:
  struct Sum {
    std::int64_t level = 0;  ///< has 2^level values; fewer at the end
    Value value;
  };

  template <class Add>
  Value merge_last(Value value, Add&& add) {
    Value sum = std::move(sums_.back().value);
    sums_.pop_back();
    add(sum, std::move(value));
    return sum;
  }

  std::vector<Sum> sums_;
};

}  // namespace baleen
