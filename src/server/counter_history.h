/// The scheduler's counters of the last minutes, so that rates have a past for whoever looks later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/scheduler_stats.h"

namespace baleen {

/// Counters at one moment; rates are differences of two samples over the difference of their times.
struct CounterSample {
  double uptime_seconds = 0;
  std::int64_t running = 0, waiting = 0;
  std::int64_t prompt_tokens = 0, cached_tokens = 0, reply_tokens = 0;
  std::int64_t steps = 0;
  double step_seconds = 0;
};

/// A ring: with `capacity` samples in it, the oldest goes for each new one. One thread. 64 bytes a sample.
class CounterHistory {
 public:
  explicit CounterHistory(std::size_t capacity);

  void add(double uptime_seconds, const SchedulerStats& stats);
  /// Oldest first.
  [[nodiscard]] std::vector<CounterSample> samples() const;

 private:
  std::size_t capacity_;
  std::size_t oldest_ = 0;  ///< where the ring begins once it is full
  std::vector<CounterSample> ring_;
};

}  // namespace baleen
