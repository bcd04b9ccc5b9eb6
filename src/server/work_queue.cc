#include "server/work_queue.h"

#include <utility>

namespace baleen {

WorkQueue::WorkQueue(std::size_t most_waiting)
    : most_waiting_(most_waiting), thread_([this](const std::stop_token& stop) { work(stop); }) {}

WorkQueue::~WorkQueue() {
  thread_.request_stop();
  thread_.join();
}

bool WorkQueue::push(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (tasks_.size() >= most_waiting_) return false;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

void WorkQueue::work(const std::stop_token& stop) {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !tasks_.empty(); })) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    if (stop.stop_requested()) return;
    task();
  }
}

}  // namespace baleen
