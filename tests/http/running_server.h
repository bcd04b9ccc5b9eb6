/// A server that runs in a thread of its own for the length of a test.
#pragma once

#include <chrono>
#include <thread>
#include <utility>

#include "http/http_server.h"
#include "tests/http/raw_client.h"

namespace baleen {

class RunningServer {
 public:
  RunningServer(HttpServerOptions options, HttpHandler handler)
      : server_(std::move(options), std::move(handler)), thread_([this] { server_.run(); }) {}
  ~RunningServer() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  HttpServer* operator->() { return &server_; }
  [[nodiscard]] RawClient connect() const { return RawClient(server_.port()); }
  /// Waits for `run` to return by itself.
  void join() { thread_.join(); }

 private:
  HttpServer server_;
  std::thread thread_;
};

/// Whether `condition` became true within ten seconds.
template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

/// Answers "METHOD path?query body".
inline void echo(HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = request.method + " " + request.path + "?" + request.query + " " + request.body;
  exchange->respond(std::move(response));
}

}  // namespace baleen
