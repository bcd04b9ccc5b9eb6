// The times that refused clients get, over a clock of the test's own.
#include "server/retry_after.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TEST(RetryAfter, FollowsTheMeasuredPace) {
  RetryAfter slow;
  for (int second = 0; second <= 60; ++second) slow.sample(second, second / 10, 4);  // a place in ten seconds
  EXPECT_EQ(slow.seconds(60), 10);
  RetryAfter quick;
  for (int second = 0; second <= 60; ++second) quick.sample(second, second * 20, 4);
  EXPECT_EQ(quick.seconds(60), 1);
}

TEST(RetryAfter, PlacesAreGivenInTurn) {
  RetryAfter retry;
  for (int second = 0; second <= 60; ++second) retry.sample(second, second / 5, 4);
  EXPECT_EQ(retry.seconds(60), 5);
  EXPECT_EQ(retry.seconds(60), 10);
  EXPECT_EQ(retry.seconds(60, 3), 25);  // a request of three choices
  // The first two places have come, and their clients with them.
  EXPECT_EQ(retry.seconds(70), 21);
  // Long after, no place is given any more.
  retry.sample(500, 100, 4);
  retry.sample(560, 112, 4);
  EXPECT_EQ(retry.seconds(560), 5);
}

TEST(RetryAfter, IsBounded) {
  RetryAfter retry;
  retry.sample(0, 0, 4);
  retry.sample(600, 1, 4);
  for (int i = 0; i < 1000; ++i) EXPECT_LE(retry.seconds(600, 1 << 20), RetryAfter::kMaxSeconds);
  EXPECT_GE(retry.seconds(600), 1);
  // A minute later the places that were given have become free.
  EXPECT_LE(retry.seconds(660), RetryAfter::kMaxSeconds);
}

TEST(RetryAfter, WithoutAPaceYetTheWaitSoFarIsTheLeast) {
  RetryAfter retry;
  EXPECT_EQ(retry.seconds(0), 1);
  retry.sample(0, 7, 4);
  retry.sample(30, 7, 4);
  EXPECT_EQ(retry.seconds(30), 30);
}

TEST(RetryAfter, ForgetsWhatIsLongAgo) {
  RetryAfter retry;
  for (int second = 0; second <= 100; ++second) retry.sample(second, second * 10, 4);
  for (int second = 101; second <= 161; ++second) retry.sample(second, 1000 + (second - 100) / 20, 4);
  EXPECT_EQ(retry.seconds(161), 20);
}

TEST(RetryAfter, IdleTimesDoNotCount) {
  RetryAfter retry;
  for (int second = 0; second <= 1000; ++second) retry.sample(second, second / 500, 0);
  EXPECT_EQ(retry.seconds(1000), 1);
  for (int second = 1000; second <= 1020; ++second) retry.sample(second, 2 + (second - 1000) / 4, 4);
  EXPECT_EQ(retry.seconds(1020), 4);
}

}  // namespace
}  // namespace baleen
