/// Bytes of a connection to requests, without a socket: the server and the fuzzer read with the same code.
///
/// Beast's parser does the work behind three strict gates: `HeadScanner` before it, the rules of this file on
/// what it found (one length, no other transfer encoding than chunked, one Host, origin-form targets), and
/// the limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/body_budget.h"
#include "http/head_scanner.h"
#include "http/http_server.h"

namespace baleen {

struct RequestLimits {
  std::size_t max_header_bytes;  ///< also of a line between chunks and of the trailers after the last
  std::size_t max_body_bytes;
};

class RequestReader {
 public:
  enum class State : std::uint8_t { kEmpty, kHead, kBody, kComplete, kRefused };

  /// `bodies` bounds this body together with those of other readers; null: nothing does.
  explicit RequestReader(RequestLimits limits, std::shared_ptr<BodyBudget> bodies = nullptr);
  ~RequestReader();
  RequestReader(RequestReader&&) noexcept;
  RequestReader& operator=(RequestReader&&) noexcept;

  /// Reads on and returns how many bytes belong to this request; the rest is the next one's. Takes
  /// everything, and looks at none of it, once refused. Not after kComplete. Holds at most the limits plus
  /// `bytes`.
  std::size_t feed(std::string_view bytes);

  [[nodiscard]] State state() const { return state_; }
  /// After the head: the client waits for `100 Continue` before it sends the body.
  [[nodiscard]] bool expects_continue() const { return state_ == State::kBody && expects_continue_; }
  /// After the head. HTTP/1.1 without `Connection: close`, or 1.0 with `keep-alive`.
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  [[nodiscard]] bool http11() const { return http11_; }
  /// kRefused: why.
  [[nodiscard]] const HttpError& error() const { return error_; }
  /// kComplete: the request, to be moved from.
  [[nodiscard]] HttpRequest& request() { return request_; }

 private:
  class Parser;

  std::size_t feed_head(std::string_view bytes);
  void parse_head();
  void feed_body(std::string_view bytes, std::size_t& used);
  std::size_t put(std::string_view bytes);
  void check_head();
  void finish_if_done();
  void refuse(int status, std::string code, std::string message);

  RequestLimits limits_;
  std::shared_ptr<BodyBudget> bodies_;
  State state_ = State::kEmpty;
  HeadScanner scanner_;
  std::string unparsed_;  // the head until it is whole; then the beginning of a line between chunks
  std::unique_ptr<Parser> parser_;
  HttpRequest request_;
  HttpError error_;
  bool expects_continue_ = false, keep_alive_ = false, http11_ = true;
};

}  // namespace baleen
