#include "trainer/run/micro_batches.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace baleen {

/// Gives parts out, and lets them end in their order.
class MicroBatches::Order {
 public:
  explicit Order(std::int64_t num_parts) : num_parts_(num_parts) {}

  /// The next part; -1: there is none, or another one failed.
  std::int64_t next() {
    const std::scoped_lock lock(mutex_);
    return error_ == nullptr && next_ < num_parts_ ? next_++ : -1;
  }

  /// Waits until all parts before `part` have ended; false where one of them failed.
  bool wait_for(std::int64_t part) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ == part || error_ != nullptr; });
    return error_ == nullptr;
  }

  void end() {
    const std::scoped_lock lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }

  void fail(std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    if (error_ == nullptr) error_ = std::move(error);
    changed_.notify_all();
  }

  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t num_parts_;
  std::int64_t next_ = 0;
  std::int64_t ended_ = 0;
  std::exception_ptr error_;
};

MicroBatches::MicroBatches(std::vector<LossFunction> losses)
    : losses_(std::move(losses)), own_(losses_.size()) {}

void MicroBatches::work(const MicroBatchJob& job, std::size_t worker, Order& order) {
  try {
    for (std::int64_t part = order.next(); part >= 0; part = order.next()) {
      const TrainingBatch batch = job.take(part);
      Parameters<float>* gradients = job.gradients;
      if (gradients != nullptr && part > 0) {
        if (!own_[worker]) own_[worker] = std::make_unique<Parameters<float>>(gradients->table());
        gradients = own_[worker].get();
      }
      if (gradients != nullptr) gradients->set_zero();
      const LossReport report = losses_[worker](job.weights, batch, job.options, gradients);
      if (!order.wait_for(part)) return;
      if (gradients != job.gradients) job.gradients->add(*gradients);
      job.done(batch, report);
      order.end();
    }
  } catch (...) {
    order.fail(std::current_exception());
  }
}

void MicroBatches::run(const MicroBatchJob& job) {
  Order order(job.num_parts);
  {
    std::vector<std::jthread> others;
    for (std::size_t worker = 1; worker < losses_.size() && static_cast<std::int64_t>(worker) < job.num_parts;
         ++worker)
      others.emplace_back([&, worker] { work(job, worker, order); });
    work(job, 0, order);
  }
  order.rethrow();
}

}  // namespace baleen
