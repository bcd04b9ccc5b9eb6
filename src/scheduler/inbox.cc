#include "scheduler/inbox.h"

#include <utility>

namespace baleen {

std::optional<RequestId> Inbox::submit(Request request, std::shared_ptr<ReplySink> sink, double now) {
  const std::lock_guard lock(mutex_);
  if (draining_ || published_.waiting + std::ssize(contents_.submissions) >= max_queue_) {
    ++refused_;
    return std::nullopt;
  }
  const RequestId id{next_id_++};
  contents_.submissions.push_back({id, std::move(request), std::move(sink), now});
  arrived_.notify_one();
  return id;
}

void Inbox::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  contents_.cancellations.push_back(id);
  arrived_.notify_one();
}

void Inbox::leave(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  contents_.tasks.push_back(std::move(task));
  arrived_.notify_one();
}

void Inbox::close() {
  Contents dropped;  // destroyed after the lock: a task may hold the last reference to anything
  const std::lock_guard lock(mutex_);
  draining_ = closed_ = true;
  dropped = std::exchange(contents_, {});
}

void Inbox::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

Inbox::Contents Inbox::take() {
  const std::lock_guard lock(mutex_);
  // Until the loop publishes, what it took still waits: a full queue stays full, and it does not look idle.
  published_.waiting += std::ssize(contents_.submissions);
  return std::exchange(contents_, {});
}

void Inbox::wait(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, stop, [&] { return !contents_.empty(); });
}

void Inbox::publish(const SchedulerStats& stats) {
  const std::lock_guard lock(mutex_);
  published_ = stats;
}

SchedulerStats Inbox::stats() const {
  const std::lock_guard lock(mutex_);
  SchedulerStats stats = published_;
  stats.waiting += std::ssize(contents_.submissions);
  stats.submitted = next_id_;
  stats.refused = refused_;
  return stats;
}

bool Inbox::idle() const {
  const std::lock_guard lock(mutex_);
  return contents_.submissions.empty() && published_.waiting == 0 && published_.running == 0;
}

}  // namespace baleen
