/// An HTTP/1.1 server with server-sent events: bounded in every header, body, queue and wait.
///
/// One thread runs all connections (Boost.Asio). Handlers are called in that thread and must not block; an
/// `Exchange` may be answered from any thread, at once or later.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baleen {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: any free one
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_body_bytes = 16 << 20;   ///< more gets 413
  double header_seconds = 10;              ///< for the whole head of a request
  double body_seconds = 60;                ///< for the whole body
  double idle_seconds = 75;                ///< between requests of a kept-open connection
  double write_seconds = 30;               ///< without a byte taken by the client
  std::size_t max_unsent_bytes = 1 << 20;  ///< of one response; a client that reads no more is dropped
  std::size_t max_connections = 8192;      ///< beyond: closed at once
};

struct HttpRequest {
  std::string method;
  std::string path;   ///< decoded once, without the query; never contains `..` segments
  std::string query;  ///< undecoded
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  /// First header of that name, whatever its case; empty when absent.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

/// One request's answer. Either `respond`, or `begin_events` and then `send` and `end`. Any thread; calls after the
/// client is gone do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void respond(HttpResponse response) = 0;
  /// Starts a `text/event-stream` of chunks.
  virtual void begin_events(std::vector<std::pair<std::string, std::string>> headers) = 0;
  /// Bytes of one or more whole events. False when the client is gone or too slow: it was dropped.
  virtual bool send(std::string bytes) = 0;
  virtual void end() = 0;
  /// Called once, in the server's thread, when the client disconnects or is dropped before the answer is complete.
  virtual void on_gone(std::function<void()> callback) = 0;
};

using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<Exchange> exchange)>;

struct HttpStats {
  std::int64_t connections = 0;  ///< open now
  std::int64_t accepted = 0, requests = 0, rejected = 0, timed_out = 0, dropped_slow = 0;
};

class HttpServer {
 public:
  /// Binds and listens. Throws `Error` when the address cannot be had.
  HttpServer(HttpServerOptions options, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  /// Serves until `stop`.
  void run();
  /// Accepts no more connections and closes idle ones; answers in progress go on. Any thread.
  void drain();
  /// Ends `run` now. Any thread.
  void stop();
  /// Runs `task` in the server's thread, soon; in the order of the calls. Any thread.
  void post(std::function<void()> task);
  /// Runs `task` in the server's thread after a delay, unless it has stopped. Any thread.
  void after(double seconds, std::function<void()> task);
  [[nodiscard]] HttpStats stats() const;
};

}  // namespace baleen
