#include "tokenizer/byte_level.h"

#include <array>

namespace baleen {
namespace {

/// Printable bytes of Latin-1 stand for themselves; the other 68 follow one another from U+0100.
constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr int kNumCodePoints = 0x100 + 68;

struct Alphabet {
  std::array<std::uint16_t, 256> code_point_of_byte{};
  std::array<std::int16_t, kNumCodePoints> byte_of_code_point{};  ///< -1: not in the alphabet
};

constexpr Alphabet kAlphabet = [] {
  Alphabet alphabet;
  alphabet.byte_of_code_point.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int code_point = stands_for_itself(byte) ? byte : next++;
    alphabet.code_point_of_byte[byte] = static_cast<std::uint16_t>(code_point);
    alphabet.byte_of_code_point[code_point] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}();

}  // namespace

std::string byte_level_character(std::uint8_t byte) {
  const int code_point = kAlphabet.code_point_of_byte[byte];
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 0x3F))};
}

std::optional<std::string> byte_level_decode(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  // Every character of the alphabet has one or two bytes, so whatever has more is outside it.
  for (std::size_t i = 0; i < token.size(); ++i) {
    int code_point = static_cast<unsigned char>(token[i]);
    if (code_point >= 0x80) {
      if ((code_point & 0xE0) != 0xC0 || i + 1 == token.size()) return std::nullopt;
      code_point = ((code_point & 0x1F) << 6) | (static_cast<unsigned char>(token[++i]) & 0x3F);
    }
    if (code_point >= kNumCodePoints || kAlphabet.byte_of_code_point[code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte_of_code_point[code_point]);
  }
  return bytes;
}

}  // namespace baleen
