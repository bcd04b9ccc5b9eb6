/// A client that waits: one request a connection, whole replies or server-sent events one by one.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baleen::test {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 0;
  std::string head;
  std::string body;
};

/// A connection to 127.0.0.1. Gives up, by throwing, when nothing comes for a minute, or less.
class HttpConnection {
 public:
  explicit HttpConnection(std::uint16_t port, int patience_ms = 60'000)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{.tv_sec = patience_ms / 1000, .tv_usec = patience_ms % 1000 * 1000};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      ::close(socket_);
      throw std::runtime_error("cannot connect");
    }
  }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;
  ~HttpConnection() { ::close(socket_); }

  void send(std::string_view method, std::string_view path, std::string_view body,
            const HttpHeaders& headers = {}) {
    std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n";
    for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
    if (!body.empty() || method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    text += "Connection: close\r\n\r\n" + std::string(body);
    send_raw(text);
  }
  /// Bytes as they are.
  void send_raw(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) throw std::runtime_error("cannot send");
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  /// Whether anything more came.
  bool read_some() { return read_more(); }

  /// Status and headers.
  HttpReply read_head() {
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more()) throw std::runtime_error("the connection ended within the head: " + buffer_);
    }
    HttpReply reply{.head = buffer_.substr(0, end + 2)};
    buffer_.erase(0, end + 4);
    reply.status = std::stoi(reply.head.substr(reply.head.find(' ') + 1));
    std::string lower = reply.head;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    chunked_ = lower.find("transfer-encoding: chunked") != std::string::npos;
    return reply;
  }

  /// The rest, chunks joined.
  std::string read_body() {
    while (read_more()) continue;
    std::string body;
    while (auto piece = chunk()) body += *piece;
    return body;
  }

  /// The data of the next event; nothing at the end of the stream. Comments and event names are passed over.
  std::optional<std::string> next_event() {
    while (true) {
      const std::size_t end = events_.find("\n\n");
      if (end == std::string::npos) {
        if (auto piece = chunk()) {
          events_ += *piece;
        } else if (!read_more()) {
          return std::nullopt;
        }
        continue;
      }
      const std::string event = events_.substr(0, end);
      events_.erase(0, end + 2);
      const std::size_t data = event.starts_with("data: ") ? 0 : event.find("\ndata: ");
      if (data != std::string::npos) return event.substr(event.find("data: ", data) + 6);
    }
  }

 private:
  bool read_more() {
    char bytes[65536];
    const ssize_t count = ::recv(socket_, bytes, sizeof(bytes), 0);
    if (count < 0) throw std::runtime_error("nothing came");
    buffer_.append(bytes, static_cast<std::size_t>(count));
    return count > 0;
  }

  /// What has arrived and not been given out: the next chunk, or all of it.
  std::optional<std::string> chunk() {
    if (buffer_.empty()) return std::nullopt;
    if (!chunked_) return std::exchange(buffer_, {});
    const std::size_t line = buffer_.find("\r\n");
    if (line == std::string::npos) return std::nullopt;
    const std::size_t size = std::stoul(buffer_.substr(0, line), nullptr, 16);
    if (size == 0 || buffer_.size() < line + 2 + size + 2) return std::nullopt;
    std::string piece = buffer_.substr(line + 2, size);
    buffer_.erase(0, line + 2 + size + 2);
    return piece;
  }

  int socket_;
  std::string buffer_;
  std::string events_;
  bool chunked_ = false;
};

[[nodiscard]] inline HttpReply http_request(std::uint16_t port, std::string_view method,
                                            std::string_view path, std::string_view body = {},
                                            const HttpHeaders& headers = {}) {
  HttpConnection connection(port);
  connection.send(method, path, body, headers);
  HttpReply reply = connection.read_head();
  reply.body = connection.read_body();
  return reply;
}

}  // namespace baleen::test
