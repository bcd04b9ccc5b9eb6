/// Many durations in little memory: cells 1/128 of their value wide.
#pragma once

#include <cstdint>
#include <vector>

namespace baleen {

class TimeHistogram {
 public:
  void add(double seconds, std::int64_t count = 1) {
    if (seconds != run_value_) flush();
    run_value_ = seconds;
    run_count_ += count;
  }

  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] double mean() const;
  /// The smallest cell such that a share `quantile` of all is not above it; its middle, off by 1/256 at most.
  /// 0 when there are none.
  [[nodiscard]] double quantile(double quantile) const;

 private:
  void flush() const;

  /// Equal values come in a row: most tokens of a step have waited equally long.
  mutable double run_value_ = 0;
  mutable std::int64_t run_count_ = 0;
  mutable std::vector<std::int64_t> cells_;
  mutable double sum_ = 0;
  mutable std::int64_t count_ = 0;
};

}  // namespace baleen
