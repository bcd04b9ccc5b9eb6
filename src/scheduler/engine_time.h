/// How long the engine had a step under way, and how long it waited for the loop between steps.
#pragma once

#include <optional>
#include <utility>

#include "scheduler/scheduler_stats.h"

namespace baleen {

/// Times in seconds, of one clock. A step that has ended counts as under way until it is collected, so on a
/// device that runs beside the host idle time between two queued steps is not seen here.
class EngineTime {
 public:
  explicit EngineTime(SchedulerStats& stats) : stats_(stats) {}

  /// A step begins where none was under way.
  void begin(double now) {
    if (ended_at_) stats_.idle_seconds += now - *ended_at_;
    ended_at_.reset();
    began_at_ = now;
  }
  /// The last step under way has ended.
  void end(double now) {
    stats_.step_seconds += now - began_at_;
    ended_at_ = now;
  }
  /// A step was collected. Seconds that it took of the engine's and the loop's time: since the one before,
  /// or since it began behind a rest.
  [[nodiscard]] double collected(double now) {
    return now - std::exchange(collected_at_, now).value_or(began_at_);
  }
  /// No request is there: the time until the next step is not lost.
  void rest() {
    ended_at_.reset();
    collected_at_.reset();
  }

 private:
  SchedulerStats& stats_;
  double began_at_ = 0;
  std::optional<double> ended_at_;  ///< while no step is under way and requests are there
  std::optional<double> collected_at_;
};

}  // namespace baleen
