#include "parallel/thread_pool.h"

#include <sched.h>

#include "base/check.h"

namespace baleen {
namespace {

// A decode step starts a few hundred loops some ten microseconds apart; a sleeping thread needs about fifty to wake.
// So a thread that has run out of work looks for more for about that long before it sleeps.
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
  for (int thread = 1; thread < num_threads; ++thread) threads_.emplace_back([this, thread] { work(thread); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(std::int64_t count, Call call, void* context) {
  call_ = call;
  context_ = context;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(num_threads_ - 1, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  drain(0);
  // Every thread reports, also one that found nothing left, so `body` outlives its last use.
  while (busy_.load(std::memory_order_acquire) != 0) pause_briefly();
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
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spin) {
      pause_briefly();
    }
    generation_.wait(seen, std::memory_order_acquire);
    ++seen;
    if (stop_.load()) return;
    drain(thread);
    busy_.fetch_sub(1, std::memory_order_release);
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
