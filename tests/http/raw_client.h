/// A client that sends what it is given, byte for byte, and reads with a bound on time. Loopback only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace baleen {

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;

  /// False when the server has closed.
  bool send(std::string_view bytes);
  /// One response, by its framing; of a stream of chunks the payload, up to its end. Empty status when the
  /// server closed first or nothing came for ten seconds.
  struct Response {
    int status = 0;
    std::string head, body;
  };
  Response read_response(bool head_only = false);
  /// Reads until `text` has come; false when it will not.
  bool read_until(std::string_view text);
  /// Reads to the end of the connection. False when it is still open after ten seconds.
  bool read_to_end();
  /// What has been read and not taken.
  [[nodiscard]] const std::string& seen() const { return seen_; }

  void forget() { seen_.clear(); }

  void shut_sending();
  /// Closes with a reset.
  void reset();
  void close();

 private:
  bool read_some();

  int socket_;
  std::string seen_;
};

}  // namespace baleen
