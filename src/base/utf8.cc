#include "base/utf8.h"

#include <cstring>

namespace baleen {
namespace {

/// What may follow a lead byte: how many continuation bytes, and the range of the first of them (the others
/// are 80..BF). The narrower ranges keep out overlong forms, surrogates and values past U+10FFFF.
struct Lead {
  std::size_t num_continuations;
  unsigned char low;
  unsigned char high;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {0, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {1, 0xFF, 0x00};  // never a lead byte: no continuation is in this range
}

/// Length of the ASCII prefix, in steps of eight bytes: a lower bound that costs next to nothing.
std::size_t ascii_prefix(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080u;
  std::size_t size = 0;
  std::uint64_t word = 0;
  for (; size + sizeof word <= text.size(); size += sizeof word) {
    std::memcpy(&word, text.data() + size, sizeof word);
    if ((word & kHighBits) != 0) break;
  }
  return size;
}

}  // namespace

Utf8Step next_utf8(std::string_view bytes) {
  using Kind = Utf8Step::Kind;
  const auto first = static_cast<unsigned char>(bytes[0]);
  const Lead lead = lead_of(first);
  if (lead.low > lead.high) return {1, Kind::kInvalid};
  for (std::size_t i = 1; i <= lead.num_continuations; ++i) {
    if (i == bytes.size()) return {i, Kind::kTruncated};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {i, Kind::kInvalid};
  }
  return {lead.num_continuations + 1, Kind::kValid};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    offset += ascii_prefix(text.substr(offset));
    if (offset == text.size()) break;
    const Utf8Step step = next_utf8(text.substr(offset));
    if (step.kind != Utf8Step::Kind::kValid) return offset;
    offset += step.size;
  }
  return std::nullopt;
}

std::size_t unfinished_utf8(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const std::string_view end = text.substr(text.size() - back);
    if ((static_cast<unsigned char>(end[0]) & 0xC0u) == 0x80u) continue;  // inside a character
    return next_utf8(end).kind == Utf8Step::Kind::kTruncated ? back : 0;
  }
  return 0;
}

std::size_t append_as_utf8(std::string_view bytes, std::string& text) {
  std::size_t offset = 0;
  std::size_t copied = 0;  // valid characters in [copied, offset) wait to be appended together
  while (offset < bytes.size()) {
    offset += ascii_prefix(bytes.substr(offset));
    if (offset == bytes.size()) break;
    const Utf8Step step = next_utf8(bytes.substr(offset));
    if (step.kind == Utf8Step::Kind::kTruncated) break;
    if (step.kind == Utf8Step::Kind::kInvalid) {
      text.append(bytes, copied, offset - copied);
      text += kReplacementCharacter;
      copied = offset + step.size;
    }
    offset += step.size;
  }
  text.append(bytes, copied, offset - copied);
  return offset;
}

}  // namespace baleen
