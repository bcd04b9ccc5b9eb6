#include "tests/http/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace baleen {

RawClient::RawClient(std::uint16_t port, int receive_buffer_bytes)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  BALEEN_CHECK(socket_ >= 0);
  if (receive_buffer_bytes > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  BALEEN_CHECK(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
}

RawClient::~RawClient() { close(); }

RawClient::RawClient(RawClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), seen_(std::move(other.seen_)) {}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::read_some() {
  char buffer[16384];
  const ssize_t count = ::recv(socket_, buffer, sizeof(buffer), 0);
  if (count <= 0) return false;
  seen_.append(buffer, static_cast<std::size_t>(count));
  return true;
}

bool RawClient::read_until(std::string_view text) {
  while (seen_.find(text) == std::string::npos) {
    if (!read_some()) return false;
  }
  return true;
}

bool RawClient::read_to_end() {
  while (read_some()) {
  }
  char byte;
  const ssize_t count = ::recv(socket_, &byte, 1, 0);
  return count == 0 || (count < 0 && errno == ECONNRESET);
}

RawClient::Response RawClient::read_response(bool head_only) {
  if (!read_until("\r\n\r\n")) return {};
  const std::size_t head_end = seen_.find("\r\n\r\n") + 4;
  Response response;
  response.head = seen_.substr(0, head_end);
  response.status = std::atoi(response.head.c_str() + std::string_view("HTTP/1.1 ").size());
  seen_.erase(0, head_end);
  if (head_only) return response;
  const std::size_t length = response.head.find("Content-Length: ");
  if (length != std::string::npos) {
    const std::size_t size = std::stoul(response.head.substr(length + 16));
    while (seen_.size() < size) {
      if (!read_some()) return {};
    }
    response.body = seen_.substr(0, size);
    seen_.erase(0, size);
  } else if (response.head.find("chunked") != std::string::npos) {
    for (;;) {
      if (!read_until("\r\n")) return {};
      const std::size_t size = std::stoul(seen_, nullptr, 16);
      const std::size_t begin = seen_.find("\r\n") + 2;
      while (seen_.size() < begin + size + 2) {
        if (!read_some()) return {};
      }
      response.body += seen_.substr(begin, size);
      seen_.erase(0, begin + size + 2);
      if (size == 0) break;
    }
  } else {
    read_to_end();
    response.body = std::exchange(seen_, {});
  }
  return response;
}

void RawClient::shut_sending() { ::shutdown(socket_, SHUT_WR); }

void RawClient::reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close();
}

void RawClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

}  // namespace baleen
