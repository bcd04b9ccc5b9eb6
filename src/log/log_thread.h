/// Standard error behind a bounded queue and a thread of its own, for a program that must not wait for its
/// log.
#pragma once

#include <memory>
#include <string_view>

namespace baleen {

/// While it lives, `log_line` puts lines into its queue. A full disk, a closed descriptor or a pipe that is
/// not read costs lines, never time: lost lines are counted, and a line says how many there were once writing
/// works again. One at a time, made and ended while no other thread logs.
class LogThread {
 public:
  /// Lines for `descriptor`, which stays open; at most `queue_bytes` wait.
  explicit LogThread(int descriptor = 2, std::size_t queue_bytes = std::size_t{1} << 20);
  /// Writes what waits, for at most a second.
  ~LogThread();
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;

 private:
  std::shared_ptr<class LogQueue> queue_;
};

}  // namespace baleen
