/// White space as JSON knows it, which is also what may stand between tags.
#pragma once

#include <algorithm>
#include <string_view>

namespace baleen {

inline constexpr std::string_view kWhiteSpace = " \t\n\r";

[[nodiscard]] inline bool is_blank(std::string_view text) {
  return text.find_first_not_of(kWhiteSpace) == std::string_view::npos;
}

/// Without white space at both ends.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
}

}  // namespace baleen
