/// When a client that was refused for want of a place should come again.
///
/// Places become free as requests leave the queue, at a pace that is measured. Each refused client is given
/// the time of a place of its own, behind those given to others, so that they do not all come back at once:
///
///     now        1/pace     2/pace     3/pace
///      |-----------o----------o----------o------>   the next places, given to refused clients in turn
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>

namespace baleen {

/// All times are seconds since one moment, and never go back. Thread-safe.
class RetryAfter {
 public:
  /// Clients read longer waits as none: the official ones then try again after half a second.
  static constexpr double kMaxSeconds = 60;

  /// Whole seconds from 1 to `kMaxSeconds`, rounded up.
  [[nodiscard]] static int bounded(double seconds);

  /// Notes how many requests have ever left the queue, to be run or because their clients left, and how many
  /// wait now: its pace is that of the times when some waited.
  void sample(double now, std::int64_t num_left, std::int64_t num_waiting);

  /// Whole seconds, 1 to `kMaxSeconds`, until the queue is likely to have `places` more than those given to
  /// others. 0 places: until anything has left it, for a client that waits for memory or a connection.
  [[nodiscard]] int seconds(double now, std::int64_t places = 1);

 private:
  struct Sample {
    double seconds = 0;
    double busy_seconds = 0;         ///< ever, with requests waiting
    std::int64_t num_left_busy = 0;  ///< ever, of the requests that left in that time
    std::int64_t num_left = 0;
    bool is_busy = false;
  };

  /// Seconds that a place takes to become free, over the last minute in which requests waited.
  [[nodiscard]] double seconds_a_place(double now) const;

  std::mutex mutex_;            ///< guards all below
  std::deque<Sample> samples_;  ///< oldest first
  double given_until_ = 0;      ///< when the last place that was given becomes free
};

}  // namespace baleen
