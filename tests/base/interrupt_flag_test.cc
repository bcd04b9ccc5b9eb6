#include "base/interrupt_flag.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TEST(InterruptFlag, CatchesTheSignalWhileItLives) {
  struct sigaction before {
  }, after{};
  ::sigaction(SIGINT, nullptr, &before);
  {
    InterruptFlag flag;
    EXPECT_FALSE(flag.raised());
    ::raise(SIGINT);
    EXPECT_TRUE(flag.raised());
    flag.lower();
    EXPECT_FALSE(flag.raised());
    ::raise(SIGINT);
  }
  ::sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  const InterruptFlag fresh;
  EXPECT_FALSE(fresh.raised());
}

}  // namespace
}  // namespace baleen
