/// The request target: the one form this server takes, decoded once.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baleen {

struct Target {
  std::string path;   ///< begins with '/', or is "*"
  std::string query;  ///< as sent, without the '?'
};

/// Takes origin-form (`/path?query`) and `*`. Nothing for every other form (absolute, authority, a fragment), for
/// bytes outside printable ASCII, for `%` without two hex digits, for a backslash in the path, sent or decoded, for a
/// decoded control character, and for a path with a segment `.` or `..` after decoding. The path is decoded once: a
/// `%252e` becomes `%2e`, which names nothing.
std::optional<Target> parse_target(std::string_view raw);

}  // namespace baleen
