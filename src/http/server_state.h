/// What the connections of one server share. All but the counters belongs to the server's thread.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <unordered_set>

#include "http/body_budget.h"
#include "http/http_server.h"
#include "http/mailbox.h"

namespace baleen {

class Connection;

/// `HttpStats` while it counts; read from any thread.
struct HttpCounters {
  std::atomic<std::int64_t> connections{0}, owed{0}, accepted{0}, requests{0}, rejected{0}, timed_out{0},
      dropped_slow{0}, accept_failures{0}, failures{0};
};

struct ServerState {
  HttpServerOptions options;
  HttpHandler handler;
  HttpCounters counters;
  std::shared_ptr<Mailbox> mailbox;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::shared_ptr<BodyBudget> bodies;
  bool draining = false;
  std::array<char, 64 << 10> scratch;  // one read at a time: idle connections own no buffer
  boost::asio::io_context io{1};       // last: destroyed first, with the tasks that hold connections

  /// A drained server ends with the last answer that it owes.
  void stop_if_drained() {
    if (draining && counters.owed == 0) io.stop();
  }
};

}  // namespace baleen
