/// The memory that the bodies of all requests may hold together.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace baleen {

/// Thread-safe. The last eighth is for small bodies, so that a few large ones do not shut everybody else out.
class BodyBudget {
 public:
  static constexpr std::size_t kSmallBodyBytes = 64 << 10;

  explicit BodyBudget(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Takes `bytes` more for a body that then holds `body_bytes`; false, taking nothing, when there are not as
  /// many.
  [[nodiscard]] bool take(std::size_t bytes, std::size_t body_bytes) {
    const std::size_t limit = body_bytes <= kSmallBodyBytes ? most_bytes_ : most_bytes_ - most_bytes_ / 8;
    std::size_t used = used_bytes_;
    do {
      if (used > limit || bytes > limit - used) return false;
    } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
    return true;
  }
  void give_back(std::size_t bytes) { used_bytes_ -= bytes; }
  [[nodiscard]] std::size_t used_bytes() const { return used_bytes_; }

 private:
  const std::size_t most_bytes_;
  std::atomic<std::size_t> used_bytes_ = 0;
};

/// What one body holds of the budget, until it is destroyed.
class BodyShare {
 public:
  explicit BodyShare(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  ~BodyShare() { budget_->give_back(bytes_); }

  /// False, and nothing changes, when the budget has no more.
  [[nodiscard]] bool grow_to(std::size_t bytes) {
    if (bytes <= bytes_) return true;
    if (!budget_->take(bytes - bytes_, bytes)) return false;
    bytes_ = bytes;
    return true;
  }

 private:
  const std::shared_ptr<BodyBudget> budget_;
  std::size_t bytes_ = 0;
};

}  // namespace baleen
