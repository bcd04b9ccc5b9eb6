// Every item runs exactly once, on one of the pool's threads, and the caller sees all effects.
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "parallel/thread_pool.h"

namespace baleen {
namespace {

TEST(ThreadPool, EveryItemOnce) {
  for (const int num_threads : {1, 2, 3, 8}) {
    ThreadPool pool(num_threads);
    for (const std::int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<int> visits(static_cast<std::size_t>(count), 0);
      pool.parallel_for(count, [&](std::int64_t item, int thread) {
        ASSERT_GE(thread, 0);
        ASSERT_LT(thread, num_threads);
        ++visits[static_cast<std::size_t>(item)];
      });
      EXPECT_EQ(visits, std::vector<int>(static_cast<std::size_t>(count), 1));
    }
  }
}

TEST(ThreadPool, ThousandsOfShortLoopsAndSleepsBetween) {
  ThreadPool pool(4);
  std::vector<std::int64_t> sums(4, 0);
  for (int loop = 0; loop < 5000; ++loop) {
    pool.parallel_for(5,
                      [&](std::int64_t item, int thread) { sums[static_cast<std::size_t>(thread)] += item; });
    if (loop % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), std::int64_t{0}), 5000 * 10);
}

TEST(ThreadPool, DefaultIsAtLeastOne) { EXPECT_GE(default_num_threads(), 1); }

}  // namespace
}  // namespace baleen
