/// Tasks from any thread to the server's thread. Outlives the server, so that a late answer finds a closed
/// box and not a dead server.
#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace baleen {

class Mailbox {
 public:
  using Task = std::function<void()>;

  /// `wake` makes the server's thread call `run_all` soon. It is called for the first task of a batch only,
  /// from the thread that puts it: sixty streams that each get a token in one step cost one wake-up.
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  /// Any thread. The task is dropped, not run, when the box is closed. Throws when there is no memory for it.
  void put(Task task) {
    const std::lock_guard lock(mutex_);
    if (!wake_) return;
    tasks_.push_back(std::move(task));
    if (awake_) return;
    try {
      wake_();
      awake_ = true;
    } catch (const std::exception&) {
      // No memory to post it: the next task wakes the server, or its sweep finds this one.
    }
  }

  /// In the server's thread. How many tasks an exception ended; the others run all the same.
  int run_all() {
    std::vector<Task> batch;
    {
      const std::lock_guard lock(mutex_);
      batch.swap(tasks_);
      awake_ = false;
    }
    int num_failed = 0;
    for (Task& task : batch) {
      try {
        task();
        task = nullptr;  // what it held may call back
      } catch (const std::exception&) {
        ++num_failed;
      }
    }
    return num_failed;
  }

  void close() {
    std::vector<Task> dropped;  // destroyed after the lock: a task may hold the last reference to an answer
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
    dropped.swap(tasks_);
  }

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  bool awake_ = false;  // `run_all` is on its way
  std::vector<Task> tasks_;
};

}  // namespace baleen
