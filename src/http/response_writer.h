/// Answers as bytes of HTTP/1.1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/http_server.h"

namespace baleen {

/// How an answer must look to the one request it belongs to.
struct AnswerForm {
  bool http11 = true;      ///< false: no chunks, a stream ends with the connection
  bool keep_alive = true;  ///< decides `Connection`
  bool head_only = false;  ///< HEAD: the same head, no body
  std::int64_t unix_seconds = 0;  ///< for `Date`; 0: none
};

/// Head and body. 204 and 304 have neither body nor `Content-Length`.
std::string write_response(const HttpResponse& response, AnswerForm form);

/// The head of a stream of events.
std::string write_events_head(const std::vector<std::pair<std::string, std::string>>& headers,
                              AnswerForm form);

/// Appends events as one chunk (nothing when there are none) and, with `last`, the end of the stream.
void append_events(std::string& out, std::string_view events, bool last, AnswerForm form);

inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace baleen
