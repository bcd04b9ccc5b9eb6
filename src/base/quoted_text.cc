#include "base/quoted_text.h"

#include <fmt/format.h>

#include "base/number.h"

namespace baleen {
namespace {

/// At most `limit` bytes of `text`, no code point cut in two.
std::string_view head(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  constexpr unsigned char kContinuationMask = 0xC0, kContinuation = 0x80;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & kContinuationMask) == kContinuation) --limit;
  return text.substr(0, limit);
}

}  // namespace

std::string quoted_text(std::string_view text, std::size_t limit_bytes) {
  if (text.size() <= limit_bytes) return fmt::format("{:?}", text);
  std::string shown = fmt::format("{:?}", head(text, limit_bytes));
  shown.insert(shown.size() - 1, "...");
  return fmt::format("{} ({} bytes)", shown, grouped(static_cast<std::uint64_t>(text.size())));
}

std::string shortened_text(std::string_view text, std::size_t limit_bytes) {
  std::string shown = fmt::format("{:?}", head(text, limit_bytes));
  shown = shown.substr(1, shown.size() - 2);
  return text.size() <= limit_bytes ? shown : shown + "...";
}

}  // namespace baleen
