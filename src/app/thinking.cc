#include "app/thinking.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

namespace baleen {
namespace {

constexpr std::string_view kOff = "off";

}  // namespace

Result<Thinking> thinking_named(const PromptRules& rules, std::string_view name) {
  if (name == kOff) return Thinking{};
  if (std::ranges::find(rules.efforts, name, &ReasoningEffort::name) == rules.efforts.end())
    return not_an_effort(rules, name, kOff);
  return Thinking{std::string(name)};
}

std::vector<std::string> all_thinking_names() {
  std::vector<std::string> names{std::string(kOff)};
  // The last profile has all efforts of those before it, in their order.
  for (const PromptRules& rules : all_prompt_rules() | std::views::reverse) {
    for (const ReasoningEffort& effort : rules.efforts) {
      if (std::ranges::find(names, effort.name) == names.end()) names.emplace_back(effort.name);
    }
  }
  return names;
}

std::string efforts_by_profile() {
  std::vector<std::string> profiles;
  for (const PromptRules& rules : all_prompt_rules()) {
    profiles.push_back(
        fmt::format("{}: {}", rules.name,
                    fmt::join(rules.efforts | std::views::transform(&ReasoningEffort::name), ", ")));
  }
  return fmt::format("({})", fmt::join(profiles, "; "));
}

}  // namespace baleen
