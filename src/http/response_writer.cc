#include "http/response_writer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>

#include "http/header_names.h"

namespace baleen {
namespace {

std::string_view reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 507:
      return "Insufficient Storage";
    case 529:
      return "Overloaded";
    default:
      return "";  // RFC 9112 section 4 allows none
  }
}

bool is_clean(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  });
}

/// Whether a handler may set it: the framing is the server's, and a line ending in a value would begin a new
/// header.
bool may_set(const std::pair<std::string, std::string>& header) {
  for (const char* own : {"Content-Length", "Transfer-Encoding", "Connection", "Content-Type"}) {
    if (same_header(header.first, own)) return false;
  }
  return !header.first.empty() && is_clean(header.first) && is_clean(header.second) &&
         header.first.find_first_of(" \t:") == std::string::npos;
}

std::string write_head(int status, std::string_view content_type,
                       const std::vector<std::pair<std::string, std::string>>& headers, AnswerForm form) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, reason(status));
  if (!content_type.empty() && is_clean(content_type))
    head += fmt::format("Content-Type: {}\r\n", content_type);
  for (const auto& header : headers) {
    if (may_set(header)) head += fmt::format("{}: {}\r\n", header.first, header.second);
  }
  if (form.unix_seconds != 0)
    head +=
        fmt::format("Date: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", fmt::gmtime(std::time_t{form.unix_seconds}));
  if (!form.keep_alive) {
    head += "Connection: close\r\n";
  } else if (!form.http11) {
    head += "Connection: keep-alive\r\n";
  }
  return head;
}

}  // namespace

std::string write_response(const HttpResponse& response, AnswerForm form) {
  const bool bodiless = response.status == 204 || response.status == 304;
  std::string out = write_head(response.status, bodiless ? "" : std::string_view(response.content_type),
                               response.headers, form);
  if (!bodiless) out += fmt::format("Content-Length: {}\r\n", response.body.size());
  out += "\r\n";
  if (!bodiless && !form.head_only) out += response.body;
  return out;
}

std::string write_events_head(const std::vector<std::pair<std::string, std::string>>& headers,
                              AnswerForm form) {
  std::string out = write_head(200, "text/event-stream", headers, form);
  out += "Cache-Control: no-cache\r\n";
  if (form.http11) out += "Transfer-Encoding: chunked\r\n";
  return out + "\r\n";
}

void append_events(std::string& out, std::string_view events, bool last, AnswerForm form) {
  if (form.head_only) return;
  if (!form.http11) {
    out += events;
    return;
  }
  if (!events.empty()) {
    fmt::format_to(std::back_inserter(out), "{:x}\r\n", events.size());
    out += events;
    out += "\r\n";
  }
  if (last) out += "0\r\n\r\n";
}

HttpResponse default_error_response(const HttpError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body =
      fmt::format(R"({{"error": {{"message": "{}", "type": "{}", "code": "{}"}}}})", error.message,
                  error.status >= 500 ? "server_error" : "invalid_request_error", error.code);
  if (error.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (same_header(key, name)) return value;
  }
  return {};
}

}  // namespace baleen
