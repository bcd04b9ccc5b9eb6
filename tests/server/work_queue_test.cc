#include "server/work_queue.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace baleen {
namespace {

TEST(WorkQueue, RunsTasksInOrder) {
  std::vector<int> order;
  std::promise<void> done;
  {
    WorkQueue queue(1000);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(queue.push([&order, i] { order.push_back(i); }));
    }
    ASSERT_TRUE(queue.push([&done] { done.set_value(); }));
    done.get_future().wait();
  }
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(WorkQueue, RefusesWhatIsTooMuchAndDropsTheRestAtTheEnd) {
  std::promise<void> begun, go_on;
  int num_run = 0;
  {
    WorkQueue queue(2);
    ASSERT_TRUE(queue.push([&] {
      begun.set_value();
      go_on.get_future().wait();
    }));
    begun.get_future().wait();
    EXPECT_TRUE(queue.push([&] { ++num_run; }));
    EXPECT_TRUE(queue.push([&] { ++num_run; }));
    EXPECT_FALSE(queue.push([&] { ++num_run; }));
    go_on.set_value();
  }
  EXPECT_LE(num_run, 2);
}

}  // namespace
}  // namespace baleen
