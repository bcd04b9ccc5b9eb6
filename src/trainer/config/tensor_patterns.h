/// Names of tensors by patterns of the shell: `layers.*.attn.w?_a`; `*` also crosses dots.
#pragma once

#include <fnmatch.h>

#include <algorithm>
#include <string>
#include <vector>

namespace baleen {

[[nodiscard]] inline bool matches_pattern(const std::string& name, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

/// No patterns choose every tensor.
[[nodiscard]] inline bool is_chosen(const std::string& name, const std::vector<std::string>& patterns) {
  return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
           return matches_pattern(name, pattern);
         });
}

}  // namespace baleen
