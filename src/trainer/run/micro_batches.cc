#include "trainer/run/micro_batches.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <thread>
#include <utility>

namespace baleen {

/// Gives parts out, and lets them end in their order.
class MicroBatches::Order {
 public:
  explicit Order(TrainingRanks::Range parts) : end_(parts.end), next_(parts.begin), ended_(parts.begin) {}

  /// The next part; -1: there is none, or another one failed.
  std::int64_t next() {
    const std::scoped_lock lock(mutex_);
    return error_ == nullptr && next_ < end_ ? next_++ : -1;
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
  std::int64_t end_;
  std::int64_t next_;
  std::int64_t ended_;  ///< all parts before it have
  std::exception_ptr error_;
};

MicroBatches::MicroBatches(std::vector<LossFunction> losses) : losses_(std::move(losses)) {}

MicroBatches::Gradients* MicroBatches::take_free(const MicroBatchJob& job) {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) {
    own_.push_back(std::make_unique<Gradients>(job.gradients->table()));
    return own_.back().get();
  }
  Gradients* gradients = free_.back();
  free_.pop_back();
  gradients->set_zero();
  return gradients;
}

void MicroBatches::give_back(Gradients* gradients) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(gradients);
}

void MicroBatches::work(const MicroBatchJob& job, std::size_t worker, Order& order) {
  try {
    for (std::int64_t part = order.next(); part >= 0; part = order.next()) {
      const TrainingBatch batch = job.take(part);
      Gradients* gradients = job.gradients == nullptr ? nullptr : take_free(job);
      const LossReport report = losses_[worker](job.weights, batch, job.options, gradients);
      if (!order.wait_for(part)) return;
      if (gradients != nullptr) {
        sums_.push(gradients, [this](Gradients* sum, Gradients* value) {
          sum->add(*value);
          give_back(value);
        });
      }
      job.done(part, batch, report);
      order.end();
    }
  } catch (...) {
    order.fail(std::current_exception());
  }
}

void MicroBatches::run(const MicroBatchJob& job) {
  const std::int64_t num_parts = job.parts.end - job.parts.begin;
  sums_ = {};
  free_.clear();
  for (const std::unique_ptr<Gradients>& gradients : own_) free_.push_back(gradients.get());
  free_.push_back(job.gradients);
  Order order(job.parts);
  {
    std::vector<std::jthread> others;
    for (std::size_t worker = 1; worker < losses_.size() && static_cast<std::int64_t>(worker) < num_parts;
         ++worker)
      others.emplace_back([&, worker] { work(job, worker, order); });
    work(job, 0, order);
  }
  order.rethrow();
  if (job.gradients == nullptr) return;
  if (num_parts == 0) return job.gradients->set_zero();
  Gradients* sum = sums_.take([](Gradients* left, Gradients* right) { left->add(*right); });
  if (sum != job.gradients) std::swap(*sum, *job.gradients);
}

}  // namespace baleen
