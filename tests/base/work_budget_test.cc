#include "base/work_budget.h"

#include <gtest/gtest.h>

#include <thread>

namespace baleen {
namespace {

TEST(WorkBudget, CountsWithinAScopeOnly) {
  EXPECT_NO_THROW(spend_work(1'000'000'000'000));
  {
    const WorkScope scope(10);
    spend_work(4);
    spend_work(6);
    EXPECT_THROW(spend_work(1), WorkExceeded);
    EXPECT_THROW(spend_work(1), WorkExceeded) << "it stays used up";
    std::thread([] { EXPECT_NO_THROW(spend_work(100)); }).join();
  }
  EXPECT_NO_THROW(spend_work(1'000));
}

TEST(WorkBudget, ScopesNest) {
  const WorkScope outer(10);
  {
    const WorkScope inner(5);
    EXPECT_THROW(spend_work(6), WorkExceeded);
  }
  EXPECT_NO_THROW(spend_work(10));
}

}  // namespace
}  // namespace baleen
