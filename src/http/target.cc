#include "http/target.h"

#include <algorithm>

namespace baleen {
namespace {

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::optional<std::string> percent_decode(std::string_view raw) {
  std::string decoded;
  decoded.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '%') {
      decoded += raw[i];
      continue;
    }
    if (i + 2 >= raw.size()) return std::nullopt;
    const auto high = hex_digit(raw[i + 1]), low = hex_digit(raw[i + 2]);
    if (!high || !low) return std::nullopt;
    decoded += static_cast<char>(*high << 4 | *low);
    i += 2;
  }
  return decoded;
}

bool is_safe_path(std::string_view path) {
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '\\') return false;
  }
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::string_view segment = path.substr(0, path.find('/'));
    if (segment == "." || segment == "..") return false;
    path.remove_prefix(segment.size());
  }
  return true;
}

}  // namespace

std::optional<Target> parse_target(std::string_view raw) {
  if (raw == "*") return Target{"*", ""};
  static constexpr std::string_view kScheme = "http://";
  if (raw.starts_with(kScheme)) {
    const std::string_view rest = raw.substr(kScheme.size());
    const std::size_t slash = std::min(rest.find_first_of("/?#"), rest.size());
    if (slash == 0 || (slash < rest.size() && rest[slash] != '/')) return std::nullopt;
    std::optional<Target> target = parse_target(slash == rest.size() ? "/" : rest.substr(slash));
    if (target) target->authority = rest.substr(0, slash);
    return target;
  }
  if (raw.empty() || raw.front() != '/') return std::nullopt;
  const auto is_allowed = [](char c) { return c > ' ' && c < 0x7f && c != '#'; };
  if (!std::all_of(raw.begin(), raw.end(), is_allowed)) return std::nullopt;
  const std::size_t mark = raw.find('?');
  std::optional<std::string> path = percent_decode(raw.substr(0, mark));
  if (!path || !is_safe_path(*path)) return std::nullopt;
  return Target{std::move(*path), mark == std::string_view::npos ? "" : std::string(raw.substr(mark + 1))};
}

}  // namespace baleen
