#include "server/preparation.h"

#include <exception>
#include <new>
#include <utility>

#include "base/memory_reserve.h"
#include "base/work_budget.h"
#include "log/log.h"

namespace baleen {
namespace {

using OwnedTask = std::unique_ptr<PreparationTask>;

/// A refusal needs memory too. Without any the task is dropped, and the exchange with it, which answers 500.
void refuse(const PreparationTask& task, const ApiError& error) noexcept {
  try {
    task.refuse(error);
  } catch (...) {
    lose_log_line();
  }
}

ApiError queue_full() {
  return {.status = 429,
          .type = "rate_limit_error",
          .code = "queue_full",
          .message = "too many requests at once; try again after the time in Retry-After"};
}

ApiError too_much_work() {
  return {.status = 400,
          .code = "too_much_work",
          .message =
              "preparing this request takes more work than one request may cost; simplify its schemas and "
              "patterns, or shorten its text"};
}

/// Runs the task with that much work. False when it wants more; all else that goes wrong is answered.
bool run_within(const PreparationTask& task, std::int64_t work) {
  try {
    const WorkScope scope(work);
    task.run(task.body);
  } catch (const WorkExceeded&) {
    return false;
  } catch (const std::bad_alloc&) {
    fill_memory_reserve();
    refuse(task, {.status = 503,
                  .type = "server_error",
                  .code = "out_of_memory",
                  .message = "the server is short of memory for this request; try again in a moment"});
  } catch (const std::exception& exception) {
    log_line("baleen: a request could not be prepared: {}", exception.what());
    refuse(task, {.status = 500,
                  .type = "server_error",
                  .code = "internal_error",
                  .message = "the server could not prepare this request; its log says why"});
  }
  return true;
}

}  // namespace

/// A bounded queue and the threads that empty it.
class Preparation::Lane {
 public:
  using Work = std::function<void(OwnedTask)>;

  Lane(std::size_t most_waiting, int num_threads, Work work)
      : most_waiting_(most_waiting), work_(std::move(work)) {
    for (int i = 0; i < num_threads; ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { serve(stop); });
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() {
    for (std::jthread& thread : threads_) thread.request_stop();
    for (std::jthread& thread : threads_) thread.join();
  }

  void add(OwnedTask task) {
    {
      const std::lock_guard lock(mutex_);
      if (tasks_.size() < most_waiting_) tasks_.push_back(std::move(task));
    }
    if (task) return refuse(*task, queue_full());
    changed_.notify_one();
  }

  std::int64_t num_waiting() {
    const std::lock_guard lock(mutex_);
    return std::ssize(tasks_);
  }

 private:
  void serve(const std::stop_token& stop) {
    while (true) {
      OwnedTask task;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [this] { return !tasks_.empty(); }) || stop.stop_requested()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      try {
        work_(std::move(task));
      } catch (const std::exception& exception) {
        log_line("baleen: a request was lost while it was prepared: {}", exception.what());
      }
    }
  }

  const std::size_t most_waiting_;
  const Work work_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<OwnedTask> tasks_;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

Preparation::Preparation(const PreparationLimits& limits)
    : limits_(limits),
      quick_(std::make_unique<Lane>(limits.max_waiting, 1,
                                    [this](OwnedTask task) { run_quickly(std::move(task)); })),
      patient_(std::make_unique<Lane>(limits.max_waiting, limits.patient_threads,
                                      [this](const OwnedTask& task) { run_patiently(*task); })) {}

// The quick lane's thread may still add to the patient one.
Preparation::~Preparation() { quick_.reset(); }

void Preparation::add(PreparationTask task) {
  const bool small = task.body.size() <= limits_.small_body_bytes;
  (small ? quick_ : patient_)->add(std::make_unique<PreparationTask>(std::move(task)));
}

std::int64_t Preparation::num_waiting() const { return quick_->num_waiting() + patient_->num_waiting(); }

void Preparation::run_quickly(OwnedTask task) {
  const bool done = run_within(*task, limits_.quick_work);
  if (!done) patient_->add(std::move(task));
  ++num_done_;
}

void Preparation::run_patiently(const PreparationTask& task) {
  if (!run_within(task, limits_.patient_work)) refuse(task, too_much_work());
  ++num_done_;
}

}  // namespace baleen
