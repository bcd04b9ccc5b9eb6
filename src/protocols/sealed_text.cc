#include "protocols/sealed_text.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace baleen {
namespace {

using Tag = std::array<std::uint64_t, 2>;

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

/// SipHash-2-4 with its 128-bit result. (source: Aumasson and Bernstein, "SipHash: a fast short-input PRF",
/// 2012)
class SipHash {
 public:
  explicit SipHash(Tag key)
      : v_{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d ^ 0xee, key[0] ^ 0x6c7967656e657261,
           key[1] ^ 0x7465646279746573} {}

  Tag hash(std::string_view text) {
    const std::uint64_t size = text.size();
    for (; text.size() >= 8; text.remove_prefix(8)) take(little_endian(text.substr(0, 8)));
    take(size << 56 | little_endian(text));
    v_[2] ^= 0xee;
    rounds(4);
    const std::uint64_t first = folded();
    v_[1] ^= 0xdd;
    rounds(4);
    return {first, folded()};
  }

 private:
  void take(std::uint64_t word) {
    v_[3] ^= word;
    rounds(2);
    v_[0] ^= word;
  }

  void rounds(int count) {
    auto& [v0, v1, v2, v3] = v_;
    for (; count > 0; --count) {
      v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
      v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
    }
  }

  [[nodiscard]] std::uint64_t folded() const { return v_[0] ^ v_[1] ^ v_[2] ^ v_[3]; }

  std::array<std::uint64_t, 4> v_;
};

std::string tag_of(std::string_view text, std::string_view client_key) {
  // The key is a text of any length; its own hash under a fixed key has the size that is needed.
  const Tag key = SipHash({0x62616c65656e2072, 0x6561736f6e696e67}).hash(client_key);
  std::string bytes;
  for (const std::uint64_t word : SipHash(key).hash(text)) {
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(word >> (8 * i) & 0xff);
  }
  return bytes;
}

constexpr std::size_t kTagBytes = sizeof(Tag);
constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string base64(std::string_view bytes) {
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) out += kDigits[bits >> (count - 6) & 63];
  }
  if (count > 0) out += kDigits[bits << (6 - count) & 63];
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char digit : text) {
    const std::size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<unsigned>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xff);
  }
  return out;
}

}  // namespace

std::string seal_text(std::string_view text, std::string_view client_key) {
  return base64(tag_of(text, client_key) + std::string(text));
}

std::optional<std::string> open_sealed_text(std::string_view sealed, std::string_view client_key) {
  std::optional<std::string> bytes = from_base64(sealed);
  if (!bytes || bytes->size() < kTagBytes) return std::nullopt;
  const std::string tag = tag_of(std::string_view(*bytes).substr(kTagBytes), client_key);
  unsigned difference = 0;  // no early end: time must not tell how much of a guessed tag was right
  for (std::size_t i = 0; i < kTagBytes; ++i) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(tag[i]) ^ static_cast<unsigned char>((*bytes)[i]));
  }
  if (difference != 0) return std::nullopt;
  return bytes->substr(kTagBytes);
}

}  // namespace baleen
