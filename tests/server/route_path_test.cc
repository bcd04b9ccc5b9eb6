// How addresses of the server are written, and what they name.
#include "server/route_path.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TEST(RoutePath, EmptySegmentsMeanNothing) {
  EXPECT_EQ(route_path("//v1/chat/completions"), "/v1/chat/completions");
  EXPECT_EQ(route_path("/v1//chat///completions/"), "/v1/chat/completions");
  EXPECT_EQ(route_path("/health//"), "/health");
  EXPECT_EQ(route_path("/"), "/");
  EXPECT_EQ(route_path("///"), "/");
  EXPECT_EQ(route_path(""), "");
  EXPECT_EQ(route_path("*"), "*");
}

TEST(RoutePath, AVersionCountsOnce) {
  EXPECT_EQ(route_path("/messages"), "/v1/messages");
  EXPECT_EQ(route_path("//messages/count_tokens"), "/v1/messages/count_tokens");
  EXPECT_EQ(route_path("/v1/v1/messages"), "/v1/messages");
  EXPECT_EQ(route_path("/v1//v1/models/x"), "/v1/models/x");
  EXPECT_EQ(route_path("/messagesx"), "/messagesx");
  EXPECT_EQ(route_path("/v1x/models"), "/v1x/models");
  EXPECT_EQ(route_path("/v1"), "/v1");
  EXPECT_EQ(route_path("/tokenize"), "/tokenize");
}

}  // namespace
}  // namespace baleen
