#include "server/counter_history.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace baleen {

CounterHistory::CounterHistory(std::size_t capacity) : capacity_(capacity) {
  BALEEN_CHECK(capacity > 0);
  ring_.reserve(capacity);
}

void CounterHistory::add(double uptime_seconds, const SchedulerStats& stats) {
  const CounterSample sample{.uptime_seconds = uptime_seconds,
                             .running = stats.running,
                             .waiting = stats.waiting,
                             .prompt_tokens = stats.prompt_tokens,
                             .cached_tokens = stats.cached_tokens,
                             .reply_tokens = stats.reply_tokens,
                             .steps = stats.steps,
                             .step_seconds = stats.step_seconds};
  if (ring_.size() < capacity_) return ring_.push_back(sample);
  ring_[oldest_] = sample;
  oldest_ = (oldest_ + 1) % capacity_;
}

std::vector<CounterSample> CounterHistory::samples() const {
  std::vector<CounterSample> ordered;
  ordered.reserve(ring_.size());
  std::rotate_copy(ring_.begin(), std::next(ring_.begin(), static_cast<std::ptrdiff_t>(oldest_)), ring_.end(),
                   std::back_inserter(ordered));
  return ordered;
}

}  // namespace baleen
