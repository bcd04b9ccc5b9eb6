#include "server/preparation.h"

#include <gtest/gtest.h>

#include <future>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/work_budget.h"

namespace baleen {
namespace {

constexpr PreparationLimits kLimits{
    .max_waiting = 8, .small_body_bytes = 10, .quick_work = 100, .patient_work = 1000, .patient_threads = 1};

/// A task and what becomes of it.
struct Outcome {
  std::promise<std::optional<ApiError>> ended;  ///< nothing: it was done
  int num_begun = 0;

  PreparationTask task(std::string body, std::function<void()> work) {
    PreparationTask task;
    task.body = std::move(body);
    task.run = [this, work = std::move(work)](std::string_view) {
      ++num_begun;
      work();
      ended.set_value(std::nullopt);
    };
    task.refuse = [this](const ApiError& error) { ended.set_value(error); };
    return task;
  }
  std::optional<ApiError> wait() { return ended.get_future().get(); }
};

TEST(Preparation, RunsTasksInOrder) {
  std::vector<int> order;
  std::vector<Outcome> outcomes(5);
  {
    Preparation preparation(kLimits);
    for (int i = 0; i < 5; ++i)
      preparation.add(
          outcomes[static_cast<std::size_t>(i)].task("small", [&order, i] { order.push_back(i); }));
    for (Outcome& outcome : outcomes) EXPECT_FALSE(outcome.wait());
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(Preparation, WhatExceedsTheQuickLaneBeginsAnewInThePatientOne) {
  Outcome outcome;
  Preparation preparation(kLimits);
  preparation.add(outcome.task("small", [] { spend_work(500); }));
  EXPECT_FALSE(outcome.wait());
  EXPECT_EQ(outcome.num_begun, 2);
}

TEST(Preparation, WhatExceedsBothIsRefusedWithASentence) {
  Outcome small, large;
  Preparation preparation(kLimits);
  preparation.add(small.task("small", [] { spend_work(1001); }));
  preparation.add(large.task("larger than ten bytes", [] {
    for (int i = 0; i < 1001; ++i) spend_work(1);
  }));
  for (Outcome* outcome : {&small, &large}) {
    const auto error = outcome->wait();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status, 400);
    EXPECT_EQ(error->code, "too_much_work");
  }
  EXPECT_EQ(small.num_begun, 2);
  EXPECT_EQ(large.num_begun, 1);
}

TEST(Preparation, SmallTasksDoNotWaitForLargeOnes) {
  std::promise<void> go_on;
  const std::shared_future<void> gate = go_on.get_future().share();
  Outcome bomb, large;
  std::vector<Outcome> small(20);
  Preparation preparation(kLimits);
  // One that turns out to be costly, and one that is long: both hold the patient lane until the gate opens.
  preparation.add(bomb.task("small", [gate] {
    spend_work(500);
    gate.wait();
  }));
  preparation.add(large.task("larger than ten bytes", [gate] { gate.wait(); }));
  for (Outcome& outcome : small) {
    preparation.add(outcome.task("small", [] {}));
    EXPECT_FALSE(outcome.wait());  // only then is the gate opened
  }
  go_on.set_value();
  EXPECT_FALSE(bomb.wait());
  EXPECT_FALSE(large.wait());
}

TEST(Preparation, AFullLaneRefusesAndTheRestIsDroppedAtTheEnd) {
  std::promise<void> begun, go_on;
  Outcome running;
  std::vector<Outcome> waiting(8);
  Outcome refused;
  {
    Preparation preparation(kLimits);
    preparation.add(running.task("small", [&] {
      begun.set_value();
      go_on.get_future().wait();
    }));
    begun.get_future().wait();
    for (Outcome& outcome : waiting) preparation.add(outcome.task("small", [] {}));
    preparation.add(refused.task("small", [] {}));
    const auto error = refused.wait();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status, 429);
    go_on.set_value();
  }
  EXPECT_EQ(refused.num_begun, 0);
}

TEST(Preparation, NoExceptionEndsTheThread) {
  Outcome no_memory, broken, broken_refusal, after;
  Preparation preparation(kLimits);
  preparation.add(no_memory.task("small", [] { throw std::bad_alloc(); }));
  EXPECT_EQ(no_memory.wait()->status, 503);
  preparation.add(broken.task("small", [] { throw std::runtime_error("a bug"); }));
  EXPECT_EQ(broken.wait()->status, 500);
  PreparationTask without_refusal = broken_refusal.task("small", [] { throw std::bad_alloc(); });
  without_refusal.refuse = [](const ApiError&) { throw std::bad_alloc(); };
  preparation.add(std::move(without_refusal));
  preparation.add(after.task("small", [] {}));
  EXPECT_FALSE(after.wait());
}

}  // namespace
}  // namespace baleen
