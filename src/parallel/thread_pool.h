/// A fixed set of threads for short parallel loops. Which thread runs which item is up to chance, so a kernel
/// must compute each item in an order of its own (design: "results do not depend on the batch").
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace baleen {

class ThreadPool {
 public:
  /// `num_threads` >= 1 counts the caller, which works too: 1 starts no thread.
  explicit ThreadPool(int num_threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  [[nodiscard]] int num_threads() const { return num_threads_; }

  /// Calls body(item, thread) for every item in [0, count), thread in [0, num_threads); returns when all are
  /// done. `body` must not throw. Only one loop at a time, started by one thread; loops do not nest.
  template <class Body>
  void parallel_for(std::int64_t count, Body&& body) {
    if (count <= 0) return;
    if (num_threads_ == 1 || count == 1) {
      for (std::int64_t item = 0; item < count; ++item) body(item, 0);
      return;
    }
    run(
        count,
        [](void* context, std::int64_t item, int thread) {
          (*static_cast<std::remove_reference_t<Body>*>(context))(item, thread);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Call = void (*)(void* context, std::int64_t item, int thread);

  void run(std::int64_t count, Call call, void* context);
  void work(int thread);
  void drain(int thread);

  int num_threads_;
  // The loop in progress: written by `run` while the gate is closed and no thread is inside.
  Call call_ = nullptr;
  void* context_ = nullptr;
  std::int64_t count_ = 0;
  alignas(64) std::atomic<std::int64_t> next_{0};
  /// Number of the loop in the upper bits, kClosed, and the number of threads inside in the lower ones.
  alignas(64) std::atomic<std::uint64_t> gate_{kClosed};
  /// Changes with every loop; threads without work sleep on it.
  alignas(64) std::atomic<std::uint32_t> announced_{0};
  std::atomic<bool> stop_{false};

  static constexpr std::uint64_t kClosed = 1 << 15;
  static constexpr std::uint64_t kInsideMask = kClosed - 1;
  static constexpr std::uint64_t kLoop = 1 << 16;

  std::vector<std::thread> threads_;
};

/// Threads to use by default: the number of processors this process may run on.
[[nodiscard]] int default_num_threads();

}  // namespace baleen
