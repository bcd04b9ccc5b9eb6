/// Header names and tokens compare without case, in ASCII whatever the locale.
#pragma once

#include <algorithm>
#include <string_view>

namespace baleen {

inline bool same_header(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace baleen
