// Wear: ten thousand connections, no file descriptor left, thousands of idle streams.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/http/running_server.h"

namespace baleen {
namespace {

constexpr const char* kGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

std::size_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6)) * 1024;
  }
  return 0;
}

TEST(HttpSurvival, TenThousandConnectionsOpenAndClose) {
  RunningServer server({}, echo);
  for (int i = 0; i < 10'000; ++i) {
    RawClient client = server.connect();
    if (i % 4 == 1) client.send("GET / HT");
    if (i % 4 == 2) client.send(kGet);
    if (i % 2 == 1) client.reset();
  }
  RawClient client = server.connect();
  client.send(kGet);
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_TRUE(eventually([&] { return server->stats().connections == 1; }));
}

TEST(HttpSurvival, NoFileDescriptorLeft) {
  RunningServer server({}, echo);
  RawClient first = server.connect();
  first.send(kGet);
  EXPECT_EQ(first.read_response().status, 200);
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const int next_free = dup(0);  // the client takes this one; then there is none
  ASSERT_GE(next_free, 0);
  close(next_free);
  rlimit tight = usual;
  tight.rlim_cur = static_cast<rlim_t>(next_free) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  RawClient waits = server.connect();
  waits.send(kGet);
  EXPECT_TRUE(eventually([&] { return server->stats().accept_failures >= 2; }));
  EXPECT_LT(server->stats().accept_failures, 200) << "it pauses between attempts";
  first.send(kGet);
  EXPECT_EQ(first.read_response().status, 200) << "others are served meanwhile";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(waits.read_response().status, 200);
}

TEST(HttpSurvival, RaisesTheLimitOfOpenFiles) {
  rlimit usual{}, now{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  rlimit low = usual;
  low.rlim_cur = std::min<rlim_t>(usual.rlim_max, 256);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const HttpServer server({}, echo);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, usual.rlim_max);
}

TEST(HttpSurvival, IdleStreamsAreSmall) {
  std::vector<std::shared_ptr<Exchange>> exchanges;
  std::atomic<std::size_t> num_streams{0};
  RunningServer server({}, [&](HttpRequest, const std::shared_ptr<Exchange>& exchange) {
    exchange->begin_events({});
    exchange->send("data: " + std::string(2000, 'x') + "\n\n");
    exchanges.push_back(exchange);
    ++num_streams;
  });
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const std::size_t count = std::min<std::size_t>(2000, (files.rlim_cur - 100) / 2);
  std::vector<RawClient> clients;
  clients.reserve(count);
  const std::size_t before = resident_bytes();
  for (std::size_t i = 0; i < count; ++i) {
    clients.push_back(server.connect());
    clients.back().send(kGet);
    EXPECT_TRUE(clients.back().read_until("x\n\n"));
  }
  ASSERT_EQ(num_streams, count);
  const std::size_t each = (resident_bytes() - before) / count;
  std::printf("%zu idle streams: %zu bytes each, both ends\n", count, each);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadows count as resident
  EXPECT_LT(each, 64u << 10);
#endif
}

}  // namespace
}  // namespace baleen
