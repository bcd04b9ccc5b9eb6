/// The request target, decoded once.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baleen {

struct Target {
  std::string path;            ///< begins with '/', or is "*"
  std::string query;           ///< as sent, without the '?'
  std::string authority = {};  ///< what the Host header must say, where the target is absolute
};

/// Takes origin-form (`/path?query`), `*`, and absolute-form (`http://host/path`), which proxies send.
/// Nothing for every other form (authority, a fragment), for
/// bytes outside printable ASCII, for `%` without two hex digits, for a backslash in the path, sent or
/// decoded, for a decoded control character, and for a path with a segment `.` or `..` after decoding. The
/// path is decoded once: a `%252e` becomes `%2e`, which names nothing.
std::optional<Target> parse_target(std::string_view raw);

}  // namespace baleen
