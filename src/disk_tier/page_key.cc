#include "disk_tier/page_key.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <charconv>
#include <cstring>
#include <vector>

namespace baleen {
namespace {

constexpr std::size_t kHalfDigits = 16;

PageKey from_xxhash(XXH128_hash_t hash) { return {.high = hash.high64, .low = hash.low64}; }

std::optional<std::uint64_t> half_from_hex(std::string_view digits) {
  for (const char digit : digits) {
    if ((digit < '0' || digit > '9') && (digit < 'a' || digit > 'f')) return std::nullopt;
  }
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

}  // namespace

PageKey root_key(std::string_view fingerprint) {
  return from_xxhash(XXH3_128bits(fingerprint.data(), fingerprint.size()));
}

PageKey page_key(const PageKey& parent, std::span<const TokenId> page_tokens) {
  const std::array<std::uint64_t, 2> before{parent.high, parent.low};
  std::vector<std::byte> bytes(sizeof(before) + page_tokens.size_bytes());
  std::memcpy(bytes.data(), before.data(), sizeof(before));
  if (!page_tokens.empty()) {
    std::memcpy(bytes.data() + sizeof(before), page_tokens.data(), page_tokens.size_bytes());
  }
  return from_xxhash(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string to_hex(const PageKey& key) { return fmt::format("{:016x}{:016x}", key.high, key.low); }

std::optional<PageKey> key_from_hex(std::string_view digits) {
  if (digits.size() != 2 * kHalfDigits) return std::nullopt;
  const auto high = half_from_hex(digits.substr(0, kHalfDigits));
  const auto low = half_from_hex(digits.substr(kHalfDigits));
  if (!high || !low) return std::nullopt;
  return PageKey{.high = *high, .low = *low};
}

}  // namespace baleen
