#include "server/retry_after.h"

#include <algorithm>
#include <cmath>

namespace baleen {
namespace {

/// Of waiting: long enough for a few replies of a slow model, short enough to notice that the load has
/// changed.
constexpr double kWindowSeconds = 60;

}  // namespace

int RetryAfter::bounded(double seconds) {
  return static_cast<int>(std::clamp(std::ceil(seconds), 1.0, kMaxSeconds));
}

void RetryAfter::sample(double now, std::int64_t num_left, std::int64_t num_waiting) {
  const std::lock_guard lock(mutex_);
  Sample next{.seconds = now, .num_left = num_left, .is_busy = num_waiting > 0};
  if (!samples_.empty()) {
    const Sample& last = samples_.back();
    next.busy_seconds = last.busy_seconds;
    next.num_left_busy = last.num_left_busy;
    if (last.is_busy) {
      next.busy_seconds += now - last.seconds;
      next.num_left_busy += num_left - last.num_left;
    } else if (!next.is_busy) {
      samples_.pop_back();  // of an idle time only the end counts
    }
  }
  samples_.push_back(next);
  while (samples_.size() > 2 && samples_[1].busy_seconds <= next.busy_seconds - kWindowSeconds)
    samples_.pop_front();
}

double RetryAfter::seconds_a_place(double now) const {
  if (samples_.empty()) return 0;
  const Sample &first = samples_.front(), &last = samples_.back();
  const double window =
      last.busy_seconds - first.busy_seconds + (last.is_busy ? std::max(now - last.seconds, 0.0) : 0);
  const std::int64_t left = last.num_left_busy - first.num_left_busy;
  // Where none has left yet, the next one takes at least as long as has been waited so far.
  return window / static_cast<double>(std::max<std::int64_t>(left, 1));
}

int RetryAfter::seconds(double now, std::int64_t places) {
  const std::lock_guard lock(mutex_);
  const double until = std::max(given_until_, now) +
                       seconds_a_place(now) * static_cast<double>(std::max<std::int64_t>(places, 1));
  if (places > 0) given_until_ = std::min(until, now + kMaxSeconds);
  return bounded(until - now);
}

}  // namespace baleen
