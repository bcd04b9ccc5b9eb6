/// The little of UTF-8 that the chat format needs: how long is this character, is the last one complete.
#pragma once

#include <cstddef>
#include <string_view>

namespace baleen {

namespace utf8_detail {

[[nodiscard]] constexpr bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Length promised by a first byte; 0 for a byte that starts no character.
[[nodiscard]] constexpr std::size_t promised_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte < 0xC2) return 0;  // continuation bytes, and first bytes of overlong forms
  if (byte < 0xE0) return 2;
  if (byte < 0xF0) return 3;
  return byte < 0xF5 ? 4 : 0;
}

}  // namespace utf8_detail

/// Bytes (1 to 4) of the character at the start of `text`; 0 when there is none: invalid, overlong, a
/// surrogate, beyond U+10FFFF, cut short, or empty text.
[[nodiscard]] constexpr std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const std::size_t length = utf8_detail::promised_length(text[0]);
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!utf8_detail::is_continuation(text[i])) return 0;
  }
  if (length < 3) return length;
  const auto first = static_cast<unsigned char>(text[0]), second = static_cast<unsigned char>(text[1]);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_large = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

/// Offset of the first byte that is not UTF-8; `text.size()` when all of it is.
[[nodiscard]] constexpr std::size_t utf8_valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

/// Bytes (0 to 3) at the end of `text` that begin a character which is not complete yet.
[[nodiscard]] constexpr std::size_t utf8_unfinished(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const char byte = text[text.size() - back];
    if (!utf8_detail::is_continuation(byte)) return utf8_detail::promised_length(byte) > back ? back : 0;
  }
  return 0;
}

}  // namespace baleen
