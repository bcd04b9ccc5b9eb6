/// A server with the API's shape and no model, for trying the load generator and for the ceiling of its figures.
#pragma once

#include <cstdint>
#include <memory>

namespace baleen {

class FakeModelServer {
 public:
  /// Serves in a thread of its own. A stream has a token every `token_seconds`; the first takes that long per 100
  /// words of a prompt it has not seen before.
  explicit FakeModelServer(double token_seconds);
  ~FakeModelServer();
  [[nodiscard]] std::uint16_t port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baleen
