/// Values as the bytes of a message, between processes of one program on machines of one byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace baleen {

/// Appends values as they lie in memory, arrays behind their lengths.
class MessageWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void value(const T& value) { raw(std::as_bytes(std::span(&value, 1))); }
  template <class T>
  void array(std::span<const T> values) {
    value(std::ssize(values));
    raw(std::as_bytes(values));
  }
  void text(std::string_view text) { array(std::span<const char>(text)); }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> bytes_;
};

/// Takes them off again in the same order. Throws `Error` where bytes are missing.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
  requires std::is_trivially_copyable_v<T> T value() {
    T result{};
    raw(std::as_writable_bytes(std::span(&result, 1)));
    return result;
  }
  template <class T>
  std::vector<T> array() {
    const auto count = value<std::ptrdiff_t>();
    if (count < 0 || static_cast<std::size_t>(count) > rest_.size() / sizeof(T)) refuse();
    std::vector<T> values(static_cast<std::size_t>(count));
    raw(std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::string text() {
    const std::vector<char> text = array<char>();
    return {text.begin(), text.end()};
  }
  /// Of elements that have at least `min_bytes` each.
  std::int64_t count(std::size_t min_bytes = 1) {
    const auto count = value<std::int64_t>();
    if (count < 0 || static_cast<std::size_t>(count) > rest_.size() / min_bytes) refuse();
    return count;
  }

 private:
  void raw(std::span<std::byte> to) {
    if (to.size() > rest_.size()) refuse();
    if (!to.empty()) std::memcpy(to.data(), rest_.data(), to.size());
    rest_ = rest_.subspan(to.size());
  }
  [[noreturn]] static void refuse() { fail("a message between ranks is damaged: it ends too early"); }
  std::span<const std::byte> rest_;
};

}  // namespace baleen
