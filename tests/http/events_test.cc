// Streams of events: framing, bounds, clients that leave or stop reading, many threads.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "tests/http/running_server.h"

namespace baleen {
namespace {

constexpr const char* kGetRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// A handler that begins a stream for everyone, and hands the exchanges out.
class Streams {
 public:
  void operator()(HttpRequest, const std::shared_ptr<Exchange>& exchange) {
    exchange->on_gone([this] { ++num_gone; });
    exchange->begin_events({{"X-Accel-Buffering", "no"}});
    const std::lock_guard lock(mutex_);
    exchanges_.push_back(exchange);
  }
  HttpHandler handler() {
    return [this](HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
      (*this)(std::move(request), exchange);
    };
  }
  /// The one that came `idx`-th; waits for it.
  std::shared_ptr<Exchange> at(std::size_t idx) {
    EXPECT_TRUE(eventually([&] { return size() > idx; }));
    const std::lock_guard lock(mutex_);
    return exchanges_.at(idx);
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return exchanges_.size();
  }

  std::atomic<int> num_gone{0};

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
};

TEST(HttpEvents, ArriveAsChunksOnAConnectionKeptOpen) {
  Streams streams;
  RunningServer server({}, streams.handler());
  RawClient client = server.connect();
  for (std::size_t i = 0; i < 2; ++i) {
    client.send(kGetRequest);
    const auto exchange = streams.at(i);
    EXPECT_TRUE(exchange->send("data: 1\n\n"));
    ASSERT_TRUE(client.read_until("data: 1\n\n")) << "an event is not held back";
    EXPECT_TRUE(exchange->send("data: 2\n\n"));
    EXPECT_TRUE(exchange->send("data: 3\n\n"));
    exchange->end();
    EXPECT_FALSE(exchange->send("late"));
    const RawClient::Response response = client.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "data: 1\n\ndata: 2\n\ndata: 3\n\n");
    EXPECT_NE(response.head.find("Content-Type: text/event-stream\r\n"), std::string::npos);
    EXPECT_NE(response.head.find("X-Accel-Buffering: no\r\n"), std::string::npos);
  }
  EXPECT_EQ(streams.num_gone, 0);
}

TEST(HttpEvents, OldClientsGetAStreamThatEndsWithTheConnection) {
  Streams streams;
  RunningServer server({}, streams.handler());
  RawClient client = server.connect();
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  streams.at(0)->send("data: 1\n\n");
  streams.at(0)->end();
  const RawClient::Response response = client.read_response();
  EXPECT_EQ(response.body, "data: 1\n\n");
  EXPECT_NE(response.head.find("Connection: close\r\n"), std::string::npos);
}

TEST(HttpEvents, HeadOfAStream) {
  Streams streams;
  RunningServer server({}, streams.handler());
  RawClient client = server.connect();
  client.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  streams.at(0)->send("data: 1\n\n");
  streams.at(0)->end();
  EXPECT_EQ(client.read_response(true).status, 200);
  client.send(kGetRequest);
  streams.at(1)->end();
  EXPECT_EQ(client.read_response().body, "");
}

TEST(HttpEvents, AClientThatLeavesIsNoticed) {
  Streams streams;
  RunningServer server({}, streams.handler());
  RawClient closes = server.connect(), resets = server.connect(), shuts = server.connect();
  std::size_t count = 0;
  for (RawClient* client : {&closes, &resets, &shuts}) {
    client->send(kGetRequest);
    streams.at(count++);
  }
  closes.close();
  resets.reset();
  shuts.shut_sending();
  EXPECT_TRUE(eventually([&] { return streams.num_gone == 3; }));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(streams.at(i)->send("data\n\n"));
  EXPECT_EQ(server->stats().connections, 0);
}

TEST(HttpEvents, AClientThatLeavesBeforeItsAnswerIsNoticed) {
  std::atomic<int> num_gone{0};
  std::shared_ptr<Exchange> held;
  std::atomic<bool> asked{false};
  RunningServer server({}, [&](HttpRequest, const std::shared_ptr<Exchange>& exchange) {
    exchange->on_gone([&] { ++num_gone; });
    held = exchange;
    asked = true;
  });
  RawClient client = server.connect();
  client.send(std::string(kGetRequest) + "GET /next HTT");  // reading ahead does not hide the end
  ASSERT_TRUE(eventually([&] { return asked.load(); }));
  client.close();
  EXPECT_TRUE(eventually([&] { return num_gone == 1; }));
  held->on_gone([&] { ++num_gone; });  // too late, and called all the same
  EXPECT_TRUE(eventually([&] { return num_gone == 2; }));
  held->respond({});
}

TEST(HttpEvents, AClientThatStopsReadingIsDroppedAndSlowsNobody) {
  Streams streams;
  RunningServer server({.max_unsent_bytes = 256 << 10}, streams.handler());
  RawClient stalled(server->port(), 4096), lively = server.connect();
  stalled.send(kGetRequest);
  const auto to_stalled = streams.at(0);
  lively.send(kGetRequest);
  const auto to_lively = streams.at(1);
  const std::string event = "data: " + std::string(1000, 'x') + "\n\n";
  std::size_t taken = 0;
  while (to_stalled->send(event) && taken < (64u << 20)) {
    taken += event.size();
    ASSERT_TRUE(to_lively->send("data: y\n\n"));
    ASSERT_TRUE(lively.read_until("data: y\n\n"));
    lively.forget();
  }
  EXPECT_GE(taken, 256u << 10);
  EXPECT_LT(taken, 2u << 20) << "the bound, and what the two sockets hold";
  EXPECT_FALSE(to_stalled->send(event));
  EXPECT_TRUE(eventually([&] { return streams.num_gone == 1 && server->stats().dropped_slow == 1; }));
  EXPECT_TRUE(to_lively->send("data: z\n\n"));
  EXPECT_TRUE(lively.read_until("data: z\n\n"));
}

TEST(HttpEvents, OneLargeEventIsNotSlowness) {
  Streams streams;
  RunningServer server({.max_unsent_bytes = 1000}, streams.handler());
  RawClient client = server.connect();
  client.send(kGetRequest);
  EXPECT_TRUE(streams.at(0)->send(std::string(5 << 20, 'x')));
  streams.at(0)->end();
  EXPECT_EQ(client.read_response().body.size(), 5u << 20);
}

TEST(HttpEvents, ManyStreamsFromManyThreads) {
  constexpr int kThreads = 4, kStreamsEach = 8, kEvents = 200;
  Streams streams;
  RunningServer server({}, streams.handler());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      std::vector<RawClient> clients;
      for (int i = 0; i < kStreamsEach; ++i) {
        clients.push_back(server.connect());
        clients.back().send(kGetRequest);
      }
      clients.pop_back();  // leaves in the middle
      for (RawClient& client : clients) EXPECT_EQ(client.read_response().body.size(), kEvents * 10u);
    });
  }
  std::vector<std::thread> givers;
  for (int t = 0; t < 2; ++t) {
    givers.emplace_back([&, t] {
      for (int i = t; i < kThreads * kStreamsEach; i += 2) {
        const auto exchange = streams.at(static_cast<std::size_t>(i));
        for (int n = 0; n < kEvents; ++n) exchange->send("data: 12\n\n");
        exchange->end();
      }
      EXPECT_GE(server->stats().requests, 0);  // from any thread
    });
  }
  for (std::thread& thread : givers) thread.join();
  for (std::thread& thread : threads) thread.join();
}

TEST(HttpEvents, ServersStopUnderFire) {
  for (int round = 0; round < 20; ++round) {
    Streams streams;
    RunningServer server({}, streams.handler());
    RawClient client = server.connect();
    client.send(kGetRequest);
    const auto exchange = streams.at(0);
    std::thread giver([&] {
      while (exchange->send("data: x\n\n")) {
      }
      EXPECT_TRUE(eventually([&] { return streams.num_gone == 1; }));
    });
    std::thread reader([&] { client.read_to_end(); });
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    server->stop();
    giver.join();
    reader.join();
  }
}

}  // namespace
}  // namespace baleen
