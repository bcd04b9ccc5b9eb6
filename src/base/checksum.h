/// XXH3-128 of bytes as text: what files keep to notice damage. It finds accidents, not forgeries.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace baleen {

/// Of bytes that come in pieces. Cost: at most the speed of memory.
class Checksum {
 public:
  Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  ~Checksum();

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }
  /// 32 hexadecimal digits of all bytes so far.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of all of `bytes`.
[[nodiscard]] std::string checksum_of(std::span<const std::byte> bytes);
[[nodiscard]] std::string checksum_of(std::string_view text);

}  // namespace baleen
