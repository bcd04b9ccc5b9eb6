/// What the connections of one server share. All but the counters belongs to the server's thread.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <unordered_set>

#include "http/http_server.h"
#include "http/mailbox.h"

namespace baleen {

class Connection;

/// `HttpStats` while it counts; read from any thread.
struct HttpCounters {
  std::atomic<std::int64_t> connections{0}, accepted{0}, requests{0}, rejected{0}, timed_out{0},
      dropped_slow{0}, accept_failures{0};
};

struct ServerState {
  HttpServerOptions options;
  HttpHandler handler;
  HttpCounters counters;
  std::shared_ptr<Mailbox> mailbox;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  bool draining = false;
  std::function<void()> on_empty;      // the last connection has closed
  std::array<char, 64 << 10> scratch;  // one read at a time: idle connections own no buffer
  boost::asio::io_context io{1};       // last: destroyed first, with the tasks that hold connections
};

}  // namespace baleen
