/// A thread for work that would hold up the sockets: parsing, rendering, tokenising, compiling grammars.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace baleen {

class WorkQueue {
 public:
  /// At most `most_waiting` tasks wait.
  explicit WorkQueue(std::size_t most_waiting);
  /// Drops what has not begun.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// False when full. Any thread. Tasks do not throw.
  [[nodiscard]] bool push(std::function<void()> task);

 private:
  void work(const std::stop_token& stop);

  std::size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> tasks_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace baleen
