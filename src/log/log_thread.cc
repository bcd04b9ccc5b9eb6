#include "log/log_thread.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <thread>

#include "log/log_queue.h"

namespace baleen {
namespace {

using Clock = std::chrono::steady_clock;

/// A pipe that poll() calls writable takes this many bytes without waiting.
constexpr std::size_t kPieceBytes = 4096;
/// How often a writer whose pipe is not read checks whether it should end.
constexpr int kLookMs = 50;
constexpr std::chrono::seconds kFlush(1);
/// Beyond the flush, before a thread in a write that does not return is left to itself.
constexpr std::chrono::milliseconds kGrace(500);

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

LogQueue::LogQueue(int descriptor, std::size_t capacity_bytes)
    : descriptor_(descriptor),
      capacity_(capacity_bytes),
      ring_(std::make_unique<char[]>(capacity_bytes)),
      line_(std::make_unique<char[]>(kMaxLogLineBytes)),
      deadline_ns_(kNever) {}

void LogQueue::put(std::string_view line) noexcept {
  bool taken = false;
  {
    const std::lock_guard lock(mutex_);
    if (lost_for_room_ > 0) {
      char report[128];
      const auto end = fmt::format_to_n(
          report, sizeof(report), "baleen: {} lines of this log were lost: it was not read fast enough\n",
          lost_for_room_);
      if (size_ + end.size + line.size() <= capacity_ && append({report, end.size})) lost_for_room_ = 0;
    }
    taken = lost_for_room_ == 0 && append(line);
    if (!taken) ++lost_for_room_;
  }
  if (!taken) return lose_log_line();
  changed_.notify_all();
}

bool LogQueue::append(std::string_view line) {
  if (line.size() > capacity_ - size_) return false;
  for (const char c : line) ring_[(begin_ + size_++) % capacity_] = c;
  return true;
}

std::size_t LogQueue::take_line() {
  std::size_t length = 0;
  do {
    line_[length] = ring_[begin_];
    begin_ = (begin_ + 1) % capacity_;
    --size_;
  } while (line_[length++] != '\n' && length < kMaxLogLineBytes);
  return length;
}

void LogQueue::write_all() {
  std::int64_t lost = 0;  // since writing last worked
  int why = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return size_ > 0 || finishing_; });
    if (size_ == 0) break;
    const std::size_t length = take_line();
    lock.unlock();
    if (lost > 0) {
      char report[192];
      const auto end =
          fmt::format_to_n(report, sizeof(report),
                           "baleen: {} lines of this log were lost: writing failed (error {})\n", lost, why);
      if (write_line({report, end.size}) == 0) lost = 0;
    }
    const int error = lost > 0 ? why : write_line({line_.get(), length});
    if (error != 0) {
      why = error;
      ++lost;
      lose_log_line();
    }
    lock.lock();
  }
  finished_ = true;
  changed_.notify_all();
}

int LogQueue::write_line(std::string_view line) {
  if (in_mid_line_) {
    if (!wait_until_writable()) return ETIMEDOUT;
    if (::write(descriptor_, "\n", 1) != 1) return errno;
    in_mid_line_ = false;
  }
  const std::size_t whole = line.size();
  while (!line.empty()) {
    if (!wait_until_writable()) return ETIMEDOUT;
    const ssize_t count = ::write(descriptor_, line.data(), std::min(line.size(), kPieceBytes));
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) {
      in_mid_line_ = line.size() < whole;
      return errno;
    }
    line.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

bool LogQueue::wait_until_writable() {
  pollfd target{.fd = descriptor_, .events = POLLOUT, .revents = 0};
  while (true) {
    // Past the deadline too one look is taken: what can be written at once is.
    const bool late = nanoseconds(Clock::now()) >= deadline_ns_;
    if (::poll(&target, 1, late ? 0 : kLookMs) > 0) return true;
    if (late) return false;
  }
}

bool LogQueue::finish(Clock::time_point deadline) {
  deadline_ns_ = nanoseconds(deadline);
  std::unique_lock lock(mutex_);
  finishing_ = true;
  changed_.notify_all();
  return changed_.wait_until(lock, deadline + kGrace, [this] { return finished_; });
}

LogThread::LogThread(int descriptor, std::size_t queue_bytes)
    : queue_(std::make_shared<LogQueue>(descriptor, queue_bytes)) {
  std::thread([queue = queue_] { queue->write_all(); }).detach();
  set_log_queue(queue_);
}

LogThread::~LogThread() {
  set_log_queue(nullptr);
  queue_->finish(Clock::now() + kFlush);
}

}  // namespace baleen
