/// Tool calls in V4's spelling of tags, in V4.1's.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace baleen::test {

/// Every tag whose token and name stand together is written with the space between them.
inline std::string in_spaced_tags(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kTags[] = {
      {"｜DSML｜tool_calls", "｜DSML｜ calls"},
      {"｜DSML｜invoke", "｜DSML｜ invoke"},
      {"｜DSML｜parameter", "｜DSML｜ parameter"}};
  for (const auto& [joined, spaced] : kTags) {
    for (std::size_t at = text.find(joined); at != std::string::npos;
         at = text.find(joined, at + spaced.size()))
      text.replace(at, joined.size(), spaced);
  }
  return text;
}

}  // namespace baleen::test
