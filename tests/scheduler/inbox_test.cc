#include "scheduler/inbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace baleen {
namespace {

TEST(Inbox, RefusesWhatTheQueueDoesNotHold) {
  Inbox inbox(2);
  EXPECT_TRUE(inbox.submit({}, nullptr, 0).has_value());
  EXPECT_TRUE(inbox.submit({}, nullptr, 0).has_value());
  EXPECT_FALSE(inbox.submit({}, nullptr, 0).has_value());
  EXPECT_EQ(inbox.take().submissions.size(), 2u);
  EXPECT_FALSE(inbox.submit({}, nullptr, 0).has_value());  // taken, but their outcome is not published
  EXPECT_FALSE(inbox.idle());
  inbox.publish({.waiting = 1, .running = 1});
  EXPECT_TRUE(inbox.submit({}, nullptr, 0).has_value());
  EXPECT_FALSE(inbox.submit({}, nullptr, 0).has_value());
  const SchedulerStats stats = inbox.stats();
  EXPECT_EQ(stats.waiting, 2);
  EXPECT_EQ(stats.running, 1);
  EXPECT_EQ(stats.submitted, 3);
  EXPECT_EQ(stats.refused, 3);
}

TEST(Inbox, DrainRefusesAndIdleWaitsForTheLoop) {
  Inbox inbox(8);
  EXPECT_TRUE(inbox.idle());
  EXPECT_TRUE(inbox.submit({}, nullptr, 0).has_value());
  inbox.drain();
  EXPECT_FALSE(inbox.submit({}, nullptr, 0).has_value());
  EXPECT_FALSE(inbox.idle());
  EXPECT_EQ(inbox.take().submissions.size(), 1u);
  EXPECT_FALSE(inbox.idle());
  inbox.publish({});
  EXPECT_TRUE(inbox.idle());
}

TEST(Inbox, WaitEndsWithASubmissionACancellationOrAStop) {
  Inbox inbox(8);
  {
    const std::jthread submitter([&] { EXPECT_TRUE(inbox.submit({}, nullptr, 0).has_value()); });
    inbox.wait({});
  }
  EXPECT_EQ(inbox.take().submissions.size(), 1u);
  {
    const std::jthread canceller([&] { inbox.cancel(RequestId{0}); });
    inbox.wait({});
  }
  EXPECT_EQ(inbox.take().cancellations.size(), 1u);
  std::stop_source source;
  const std::jthread stopper([&] { source.request_stop(); });
  inbox.wait(source.get_token());
  EXPECT_TRUE(inbox.take().empty());
}

}  // namespace
}  // namespace baleen
