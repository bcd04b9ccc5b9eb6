/// One HTTP request whose answer is read as it comes: chunks, events. Non-blocking; IPv4 loopback alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace baleen {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// Where the server is. `loopback` throws `Error` for a host that is not 127.x.y.z or "localhost".
struct Endpoint {
  std::uint32_t address = 0;  ///< in host order
  std::uint16_t port = 0;
  static Endpoint loopback(const std::string& host, std::uint16_t port);
};

class StreamClient {
 public:
  /// Called with the `data` of an event, or with the whole body of an answer that is no stream.
  using OnData = std::function<void(std::string_view data, Clock::time_point when)>;

  /// `receive_buffer_bytes` 0: the system's choice.
  StreamClient(Endpoint endpoint, std::string request, OnData on_data, int receive_buffer_bytes = 0);
  ~StreamClient();
  StreamClient(const StreamClient&) = delete;
  StreamClient& operator=(const StreamClient&) = delete;

  enum class State : std::uint8_t { kSending, kReading, kDone, kFailed };
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool finished() const { return state_ == State::kDone || state_ == State::kFailed; }
  [[nodiscard]] int status() const { return status_; }  ///< 0 before the head
  [[nodiscard]] Clock::time_point started() const { return started_; }

  /// Stops looking at what comes; the connection stays open.
  void stop_reading() { reads_ = false; }

 private:
  friend void drive(std::span<StreamClient* const> clients, Clock::time_point until);

  void on_ready(short events);
  void send_on();
  void read_on();
  void parse();
  bool parse_head();
  bool parse_chunk();
  void take_payload(std::string_view bytes);
  void finish(State state);

  int socket_ = -1;
  State state_ = State::kSending;
  bool reads_ = true, chunked_ = false, is_events_ = false;
  int status_ = 0;
  std::size_t body_left_ = 0;
  std::string request_, raw_, payload_;
  OnData on_data_;
  Clock::time_point started_, now_;
};

/// Moves all clients on until one of them finishes, or the time is over.
void drive(std::span<StreamClient* const> clients, Clock::time_point until);

/// Bytes of a request; a body makes it a POST of JSON.
std::string http_request(std::string_view path, std::string_view json_body = "");

}  // namespace baleen
