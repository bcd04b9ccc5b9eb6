/// An HTTP/1.1 server with server-sent events: bounded in every header, body, queue and wait.
///
/// One thread runs all connections (Boost.Asio). Handlers are called in that thread and must not block; an
/// `Exchange` may be answered from any thread, at once or later. A connection has one request at a time:
/// those sent ahead wait, and are answered in order. Requests that another server might read differently (RFC
/// 9112 calls the attack request smuggling) get 400 and the connection is closed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baleen {

struct HttpRequest {
  std::string method;  ///< capital letters; for HEAD answer as for GET: the server leaves the body out
  std::string path;    ///< decoded once, without the query; never contains `..` segments
  std::string query;   ///< undecoded
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  /// The body's share of `max_bodies_bytes`: whoever keeps the body keeps this as long. Null without a body.
  std::shared_ptr<const void> body_share;

  /// First header of that name, whatever its case; empty when absent.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

/// The server adds `Content-Length` and `Connection`, and leaves out headers that would break the framing.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

/// Sees a request's head before its body is read; a response refuses the request, and the connection closes
/// unless the request has come whole. Must not block.
using HttpHeadCheck = std::function<std::optional<HttpResponse>(const HttpRequest& head)>;

/// Why the server itself refuses a request. The message is ours: it holds no byte of the request.
struct HttpError {
  int status = 400;  ///< 400, 408, 413, 417, 431, 500 or 503
  std::string code;  ///< "bad_request", "request_timeout", "body_too_large", ...
  std::string message;
  std::string path;  ///< the request's path, once its head is known; empty before
};

/// `{"error": {"message", "type", "code"}}`; `type` is "server_error" from 500 up, else
/// "invalid_request_error".
HttpResponse default_error_response(const HttpError& error);

using HttpErrorWriter = std::function<HttpResponse(const HttpError& error)>;

struct HttpServerOptions {
  std::string host = "127.0.0.1";           ///< an address in figures, or "localhost"
  std::uint16_t port = 0;                   ///< 0: any free one
  std::size_t max_header_bytes = 16 << 10;  ///< limit of the whole head; more gets 431
  std::size_t max_body_bytes = 16 << 20;    ///< more gets 413
  /// Of all requests together, from their first byte until their handlers let go of them; more gets 503.
  std::size_t max_bodies_bytes = 256 << 20;
  double header_seconds = 10;              ///< for the whole head of a request
  double body_seconds = 60;                ///< for the whole body
  double idle_seconds = 75;                ///< between requests of a kept-open connection
  double write_seconds = 30;               ///< without a byte taken by the client
  std::size_t max_unsent_bytes = 1 << 20;  ///< limit of one stream; a client that reads no more is dropped
  std::size_t max_connections = 8192;      ///< beyond: 503 and closed at once
  HttpErrorWriter write_error;             ///< empty: the shape of `default_error_response`
  HttpHeadCheck check_head;                ///< empty: every head is good
};

/// One request's answer. Either `respond`, or `begin_events` and then `send` and `end`. Any thread; calls
/// after the client is gone do nothing. A client that closes its side of the connection is gone. The last
/// reference dropped without an answer sends 500, or cuts an unfinished stream short.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void respond(HttpResponse response) = 0;
  /// Starts a `text/event-stream` of chunks.
  virtual void begin_events(std::vector<std::pair<std::string, std::string>> headers) = 0;
  /// Bytes of one or more whole events; what waits is written together. False when the client is gone or too
  /// slow (it would have more than `max_unsent_bytes` to read): it was dropped.
  virtual bool send(std::string bytes) = 0;
  virtual void end() = 0;
  /// Called once, in the server's thread, when the client disconnects or is dropped, or the server stops,
  /// before `respond` or `end`.
  virtual void on_gone(std::function<void()> callback) = 0;
  /// A draining server does not wait for this answer, as for a stream that would go on for ever. Before
  /// `begin_events`.
  virtual void do_not_await() = 0;
};

/// An exception that leaves it is answered with 500, and so is one for want of memory on the way there.
using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<Exchange> exchange)>;

struct HttpStats {
  std::int64_t connections = 0;      ///< open now
  std::int64_t owed = 0;             ///< answers that a drain waits for
  std::int64_t body_bytes = 0;       ///< held by bodies now
  std::int64_t accepted = 0;         ///< connections ever
  std::int64_t requests = 0;         ///< read to their end
  std::int64_t rejected = 0;         ///< refused by the server itself, connections beyond the limit included
  std::int64_t timed_out = 0;        ///< heads, bodies and writes; not idle connections
  std::int64_t dropped_slow = 0;     ///< streams whose client left too much unread
  std::int64_t accept_failures = 0;  ///< most often no free file descriptor; each is followed by a pause
  std::int64_t failures = 0;         ///< steps that an exception ended, most often for want of memory
};

class HttpServer {
 public:
  /// Binds and listens, and raises the process's limit of open files as far as it may. Throws `Error` when
  /// the address cannot be had.
  HttpServer(HttpServerOptions options, HttpHandler handler);
  /// Not while `run` runs. Exchanges may outlive the server.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  /// Serves until `stop`, or until a drained server has given every answer that it owed.
  void run();
  /// Lets the answers in progress end, then `run` returns. Until then the handler still gets requests, to
  /// refuse them or to say how the server is, and each answer is the last of its connection; no one waits for
  /// those. Any thread.
  void drain();
  /// Ends `run` now. Any thread.
  void stop();
  /// Runs `task` in the server's thread, soon; in the order of the calls. Any thread.
  void post(std::function<void()> task);
  /// Runs `task` in the server's thread after a delay, unless it has stopped. Any thread.
  void after(double seconds, std::function<void()> task);
  /// Any thread.
  [[nodiscard]] HttpStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baleen
