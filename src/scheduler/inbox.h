/// Where other threads leave requests and cancellations for the loop, and find what it is doing. The only
/// thing that threads share with the loop.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "scheduler/request.h"
#include "scheduler/scheduler_stats.h"

namespace baleen {

struct Submission {
  RequestId id{};
  Request request;
  std::shared_ptr<ReplySink> sink;
  double submitted_at = 0;
};

/// Thread-safe.
class Inbox {
 public:
  explicit Inbox(std::int64_t max_queue) : max_queue_(max_queue) {}

  [[nodiscard]] std::int64_t max_queue() const { return max_queue_; }
  /// Empty when `max_queue` requests wait, here or in the loop, or after `drain`. Ids rise by arrival.
  [[nodiscard]] std::optional<RequestId> submit(Request request, std::shared_ptr<ReplySink> sink, double now);
  void cancel(RequestId id);
  /// For the loop to run; dropped after `close`.
  void leave(std::function<void()> task);
  void drain();
  /// The loop has ended: nothing is taken any more.
  void close();

  /// What came since the last call; the loop takes it in hand, and owes a `publish`. Cancellations are of
  /// requests taken now or before.
  struct Contents {
    std::vector<Submission> submissions;
    std::vector<RequestId> cancellations;
    std::vector<std::function<void()>> tasks;
    [[nodiscard]] bool empty() const { return submissions.empty() && cancellations.empty() && tasks.empty(); }
  };
  [[nodiscard]] Contents take();
  /// Sleeps until something comes, or `stop`.
  void wait(std::stop_token stop);

  /// The loop's own counts; `waiting`, `submitted` and `refused` are completed here.
  void publish(const SchedulerStats& stats);
  [[nodiscard]] SchedulerStats stats() const;
  /// Nothing here, nothing in the loop.
  [[nodiscard]] bool idle() const;

 private:
  const std::int64_t max_queue_;
  mutable std::mutex mutex_;
  std::condition_variable_any arrived_;
  Contents contents_;
  SchedulerStats published_;
  std::int64_t next_id_ = 0, refused_ = 0;
  bool draining_ = false, closed_ = false;
};

}  // namespace baleen
