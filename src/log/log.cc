#include "log/log.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "base/standard_streams.h"
#include "log/escape.h"
#include "log/log_queue.h"

namespace baleen {
namespace {

std::atomic<std::int64_t> lost_lines = 0;

// Standard error belongs to the whole process, and so does the queue before it.
std::mutex queue_mutex;
std::shared_ptr<LogQueue> the_queue;

std::shared_ptr<LogQueue> log_queue() {
  const std::lock_guard lock(queue_mutex);
  return the_queue;
}

/// Escaping makes at most four bytes of one.
std::string whole_line(std::string_view text) {
  constexpr std::size_t kMaxText = kMaxLogLineBytes / 4 - 64;
  std::string line = escaped_line(text.substr(0, kMaxText));
  if (text.size() > kMaxText) line += fmt::format(" ... ({} bytes more)", text.size() - kMaxText);
  return line + "\n";
}

}  // namespace

void set_log_queue(std::shared_ptr<LogQueue> queue) {
  const std::lock_guard lock(queue_mutex);
  the_queue.swap(queue);
}

void lose_log_line() noexcept { ++lost_lines; }
std::int64_t lost_log_lines() noexcept { return lost_lines; }

void log_line(std::string_view text) noexcept {
  try {
    const std::string line = whole_line(text);
    if (const auto queue = log_queue()) return queue->put(line);
    write_standard_error(line);
  } catch (...) {
    lose_log_line();
  }
}

void log_lines(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    log_line(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace baleen
