// Bounds: of bytes, of time, of connections.
#include <gtest/gtest.h>

#include "tests/http/running_server.h"

namespace baleen {
namespace {

TEST(HttpLimits, HeadTooLarge) {
  RunningServer server({.max_header_bytes = 1000}, echo);
  RawClient client = server.connect();
  client.send("GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(100'000, 'a'));
  EXPECT_EQ(client.read_response().status, 431);
  EXPECT_TRUE(client.read_to_end());
}

TEST(HttpLimits, BodyTooLargeIsRefusedWhileItIsStillComing) {
  RunningServer server({.max_body_bytes = 1000}, echo);
  RawClient announced = server.connect();
  announced.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n");
  EXPECT_EQ(announced.read_response().status, 413);  // before a byte of it
  EXPECT_TRUE(announced.send(std::string(500'000, 'a')))
      << "no reset: the client may not have read the answer yet";

  RawClient chunked = server.connect();
  chunked.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 5; ++i) chunked.send("fa\r\n" + std::string(250, 'a') + "\r\n");
  EXPECT_EQ(chunked.read_response().status, 413);
  chunked.shut_sending();
  EXPECT_TRUE(chunked.read_to_end());
}

TEST(HttpLimits, SlowHead) {
  RunningServer server({.header_seconds = 0.5}, echo);
  RawClient client = server.connect(), silent = server.connect();
  client.send("GET / HTTP/1.1\r\nHo");
  EXPECT_EQ(client.read_response().status, 408);
  EXPECT_TRUE(client.read_to_end());
  EXPECT_TRUE(silent.read_to_end());
  EXPECT_TRUE(silent.seen().empty());
  EXPECT_EQ(server->stats().timed_out, 1);
}

TEST(HttpLimits, ATrickleDoesNotExtendTheTime) {
  RunningServer server({.header_seconds = 0.2}, echo);
  RawClient client = server.connect();
  client.send("GET / HTTP/1.1\r\nX: ");
  bool open = true;
  for (int i = 0; open && i < 1000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    open = client.send("a") && server->stats().timed_out == 0;
  }
  EXPECT_FALSE(open);
}

TEST(HttpLimits, SlowBody) {
  RunningServer server({.body_seconds = 0.1}, echo);
  RawClient client = server.connect();
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(client.read_response().status, 408);
  EXPECT_TRUE(client.read_to_end());
}

TEST(HttpLimits, IdleConnectionsCloseSilently) {
  RunningServer server({.idle_seconds = 0.1}, echo);
  RawClient client = server.connect();
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_TRUE(client.read_to_end());
  EXPECT_TRUE(client.seen().empty());
  EXPECT_EQ(server->stats().timed_out, 0);
}

TEST(HttpLimits, StalledWrite) {
  RunningServer server({.write_seconds = 0.1}, [](HttpRequest, const std::shared_ptr<Exchange>& exchange) {
    exchange->respond({200, "text/plain", {}, std::string(30 << 20, 'x')});
  });
  RawClient client(server->port(), 4096);
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return server->stats().timed_out == 1 && server->stats().connections == 0; }));
}

TEST(HttpLimits, AHandlerMayTakeItsTime) {
  HttpServer* running = nullptr;
  RunningServer server({.body_seconds = 0.05, .idle_seconds = 0.05, .write_seconds = 0.05},
                       [&](HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
                         running->after(0.4, [request, exchange] { echo(request, exchange); });
                       });
  running = server.operator->();
  RawClient client = server.connect();
  client.send("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_EQ(client.read_response().body, "POST /slow? hi");
}

TEST(HttpLimits, ConnectionsBeyondTheLimitAreTurnedAway) {
  RunningServer server({.max_connections = 2}, echo);
  RawClient first = server.connect(), second = server.connect();
  ASSERT_TRUE(eventually([&] { return server->stats().connections == 2; }));
  RawClient third = server.connect();
  EXPECT_EQ(third.read_response().status, 503);
  EXPECT_TRUE(third.read_to_end());
  first.close();
  ASSERT_TRUE(eventually([&] { return server->stats().connections == 1; }));
  RawClient fourth = server.connect();
  fourth.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(fourth.read_response().status, 200);
}

TEST(HttpLimits, BodiesShareABoundOnMemory) {
  std::vector<std::shared_ptr<const void>> held;
  std::atomic<int> num_held{0};
  HttpServerOptions options;
  options.max_bodies_bytes = 1 << 20;
  RunningServer server(options, [&](HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
    if (request.path == "/keep") {
      held.push_back(request.body_share);
      ++num_held;
    }
    if (request.path == "/let-go") held.clear();
    exchange->respond({.body = "ok"});
  });
  const auto post = [&](const char* path, std::size_t bytes) {
    RawClient client = server.connect();
    client.send(std::string("POST ") + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                std::to_string(bytes) + "\r\n\r\n" + std::string(bytes, 'x'));
    return client.read_response();
  };
  EXPECT_EQ(post("/keep", 400'000).status, 200);
  EXPECT_EQ(post("/keep", 400'000).status, 200);
  EXPECT_GE(server->stats().body_bytes, 800'000);
  const RawClient::Response refused = post("/keep", 400'000);
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.head.find("Retry-After"), std::string::npos);
  EXPECT_EQ(post("/small", 10'000).status, 200) << "the last eighth is for small bodies";
  EXPECT_EQ(post("/let-go", 1).status, 200);
  EXPECT_TRUE(eventually([&] { return server->stats().body_bytes == 0; }));
  EXPECT_EQ(post("/keep", 400'000).status, 200);
}

}  // namespace
}  // namespace baleen
