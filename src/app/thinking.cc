#include "app/thinking.h"

#include <fmt/format.h>

namespace baleen {
namespace {

constexpr std::string_view kOff = "off";

}  // namespace

Result<Thinking> thinking_named(const PromptProfile& profile, std::string_view name) {
  if (name == kOff) return Thinking{};
  if (name.empty() || !effort_text(profile, name)) return not_an_effort(profile, name, kOff);
  return Thinking{std::string(name)};
}

std::vector<std::string> all_thinking_names() {
  std::vector<std::string> names{std::string(kOff)};
  // Every profile has its efforts in the order of these words.
  for (const std::string_view word : kEffortWords) names.emplace_back(word);
  return names;
}

std::string efforts_by_profile() {
  std::vector<std::string> profiles;
  for (const PromptRules& rules : all_prompt_rules()) {
    profiles.push_back(fmt::format("{}: {}", rules.name, fmt::join(effort_names({rules.format}), ", ")));
    if (rules.has_numbers()) profiles.back() += fmt::format(", {} to {}", kMinEffort, kMaxEffort);
  }
  return fmt::format("({})", fmt::join(profiles, "; "));
}

}  // namespace baleen
