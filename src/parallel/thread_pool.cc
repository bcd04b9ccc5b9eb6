#include "parallel/thread_pool.h"

#include <sched.h>

#include "base/check.h"

namespace baleen {
namespace {

// A decode step starts a few hundred loops some ten microseconds apart; a sleeping thread needs about fifty
// to wake. So a thread that has run out of work looks for more for about that long before it sleeps.
constexpr int kSpins = 20000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads) {
  BALEEN_CHECK_LE(1, num_threads);
  threads_.reserve(static_cast<std::size_t>(num_threads - 1));
  for (int thread = 1; thread < num_threads; ++thread)
    threads_.emplace_back([this, thread] { work(thread); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  announced_.fetch_add(1, std::memory_order_release);
  announced_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// A thread takes part in a loop only if it comes through the gate before the caller, out of items, closes it.
// So a thread that the system has put aside never holds up a loop whose work the others have done.
void ThreadPool::run(std::int64_t count, Call call, void* context) {
  call_ = call;
  context_ = context;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  gate_.store((gate_.load(std::memory_order_relaxed) & ~(kClosed | kInsideMask)) + kLoop,
              std::memory_order_release);
  announced_.fetch_add(1, std::memory_order_release);
  announced_.notify_all();
  drain(0);
  gate_.fetch_or(kClosed, std::memory_order_acq_rel);
  for (int spin = 0; (gate_.load(std::memory_order_acquire) & kInsideMask) != 0; ++spin) {
    if (spin < kSpins) {
      pause_briefly();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::drain(int thread) {
  for (;;) {
    const std::int64_t item = next_.fetch_add(1, std::memory_order_relaxed);
    if (item >= count_) return;
    call_(context_, item, thread);
  }
}

void ThreadPool::work(int thread) {
  std::uint32_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && announced_.load(std::memory_order_acquire) == seen; ++spin) {
      pause_briefly();
    }
    announced_.wait(seen, std::memory_order_acquire);
    seen = announced_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    std::uint64_t gate = gate_.load(std::memory_order_acquire);
    while ((gate & kClosed) == 0) {
      if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) {
        drain(thread);
        gate_.fetch_sub(1, std::memory_order_release);
        break;
      }
    }
  }
}

int default_num_threads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  const int count = CPU_COUNT(&allowed);
  return count > 0 ? count : 1;
}

}  // namespace baleen
