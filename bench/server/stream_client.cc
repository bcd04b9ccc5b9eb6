#include "bench/server/stream_client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/error.h"

namespace baleen {

Endpoint Endpoint::loopback(const std::string& host, std::uint16_t port) {
  in_addr address{};
  const bool is_address = inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), &address) == 1;
  if (!is_address || ntohl(address.s_addr) >> 24 != 127) {
    fail("host \"{}\": load is for servers on this machine alone; expected 127.0.0.1 or localhost", host);
  }
  return {ntohl(address.s_addr), port};
}

StreamClient::StreamClient(Endpoint endpoint, std::string request, OnData on_data, int receive_buffer_bytes)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      request_(std::move(request)),
      on_data_(std::move(on_data)),
      started_(Clock::now()) {
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (receive_buffer_bytes > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port);
  address.sin_addr.s_addr = htonl(endpoint.address);
  const int code = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (code != 0 && errno != EINPROGRESS) finish(State::kFailed);
}

StreamClient::~StreamClient() {
  if (socket_ >= 0) ::close(socket_);
}

void StreamClient::finish(State state) {
  state_ = state;
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void StreamClient::on_ready(short events) {
  now_ = Clock::now();
  if (state_ == State::kSending && (events & (POLLOUT | POLLERR | POLLHUP))) send_on();
  if (!reads_) {
    if (events & (POLLERR | POLLHUP)) finish(State::kFailed);  // dropped
    return;
  }
  if (state_ == State::kReading && (events & (POLLIN | POLLERR | POLLHUP))) read_on();
}

void StreamClient::send_on() {
  const ssize_t sent = ::send(socket_, request_.data(), request_.size(), MSG_NOSIGNAL);
  if (sent < 0) {
    if (errno != EAGAIN) finish(State::kFailed);
    return;
  }
  request_.erase(0, static_cast<std::size_t>(sent));
  if (!request_.empty()) return;
  request_ = {};
  state_ = State::kReading;
}

void StreamClient::read_on() {
  std::array<char, 16384> buffer;
  const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), 0);
  if (count < 0 && errno == EAGAIN) return;
  if (count <= 0) return finish(State::kFailed);  // answers say where they end
  raw_.append(buffer.data(), static_cast<std::size_t>(count));
  parse();
}

void StreamClient::parse() {
  if (status_ == 0 && !parse_head()) return;
  if (chunked_) {
    while (state_ == State::kReading && parse_chunk()) {
    }
    return;
  }
  if (raw_.size() < body_left_) return;
  on_data_(std::string_view(raw_).substr(0, body_left_), now_);
  finish(State::kDone);
}

bool StreamClient::parse_head() {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const std::size_t end = raw_.find(kEnd);
  if (end == std::string::npos) return false;
  std::string head = raw_.substr(0, end + kEnd.size());
  raw_.erase(0, head.size());
  status_ = std::atoi(head.c_str() + std::string_view("HTTP/1.1 ").size());
  std::transform(head.begin(), head.end(), head.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  chunked_ = head.find("\r\ntransfer-encoding: chunked") != std::string::npos;
  is_events_ = head.find("text/event-stream") != std::string::npos;
  constexpr std::string_view kLength = "\r\ncontent-length: ";
  if (const std::size_t at = head.find(kLength); at != std::string::npos) {
    body_left_ = std::strtoull(head.c_str() + at + kLength.size(), nullptr, 10);
  }
  return true;
}

bool StreamClient::parse_chunk() {
  const std::size_t line_end = raw_.find("\r\n");
  if (line_end == std::string::npos) return false;
  const std::size_t size = std::strtoull(raw_.c_str(), nullptr, 16);
  const std::size_t whole = line_end + 2 + size + 2;
  if (raw_.size() < whole) return false;
  take_payload(std::string_view(raw_).substr(line_end + 2, size));
  raw_.erase(0, whole);
  if (size == 0) finish(State::kDone);
  return true;
}

void StreamClient::take_payload(std::string_view bytes) {
  payload_ += bytes;
  if (!is_events_) {
    if (bytes.empty()) on_data_(payload_, now_);
    return;
  }
  constexpr std::string_view kData = "data: ";
  std::size_t at = 0;
  for (std::size_t end; (end = payload_.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string_view event = std::string_view(payload_).substr(at, end - at);
    if (const std::size_t data = event.find(kData); data != std::string_view::npos) {
      on_data_(event.substr(data + kData.size()), now_);
    }
  }
  payload_.erase(0, at);
}

void drive(std::span<StreamClient* const> clients, Clock::time_point until) {
  std::vector<pollfd> waiting;
  std::vector<StreamClient*> who;
  for (StreamClient* client : clients) {
    if (client->finished()) return;
    const bool sends = client->state_ == StreamClient::State::kSending;
    const short events = sends ? POLLOUT : client->reads_ ? POLLIN : 0;
    waiting.push_back({.fd = client->socket_, .events = events, .revents = 0});
    who.push_back(client);
  }
  for (bool finished = false; !finished;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return;
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(std::min<std::int64_t>(left, 1000))) < 0)
      return;
    for (std::size_t i = 0; i < who.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      who[i]->on_ready(waiting[i].revents);
      waiting[i].events = who[i]->state_ == StreamClient::State::kSending ? POLLOUT
                          : who[i]->reads_                                ? POLLIN
                                                                          : 0;
      finished |= who[i]->finished();
    }
  }
}

std::string http_request(std::string_view path, std::string_view json_body) {
  if (json_body.empty()) return fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      path, json_body.size(), json_body);
}

}  // namespace baleen
