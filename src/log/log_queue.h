/// The queue between those who log and the thread that writes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "log/log.h"

namespace baleen {

/// A ring of bytes in which lines wait. Nothing is allocated after its making. Thread-safe; `write_all`
/// belongs to the one thread that writes. Shared with that thread, which may outlive the `LogThread` in a
/// write that never returns.
class LogQueue {
 public:
  LogQueue(int descriptor, std::size_t capacity_bytes);

  /// `line` ends with a newline. Lost when there is no room.
  void put(std::string_view line) noexcept;
  /// Writes lines until `finish` and the queue is empty.
  void write_all();
  /// What waits may be written until `deadline`; then `write_all` returns. True when it has returned by a
  /// moment after it.
  bool finish(std::chrono::steady_clock::time_point deadline);

 private:
  [[nodiscard]] bool append(std::string_view line);
  [[nodiscard]] std::size_t take_line();
  /// An error number; 0: all of it was written.
  [[nodiscard]] int write_line(std::string_view line);
  [[nodiscard]] bool wait_until_writable();

  const int descriptor_;
  const std::size_t capacity_;
  const std::unique_ptr<char[]> ring_;
  const std::unique_ptr<char[]> line_;  // being written; the writer's alone
  bool in_mid_line_ = false;            // a write ended there; the writer's alone

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::size_t begin_ = 0, size_ = 0;
  std::int64_t lost_for_room_ = 0;  // since the queue last said so
  bool finishing_ = false, finished_ = false;
  std::atomic<std::int64_t> deadline_ns_;  // for the writer, which reads it between attempts
};

/// Where `log_line` puts lines from now on; null: it writes them itself.
void set_log_queue(std::shared_ptr<LogQueue> queue);

}  // namespace baleen
