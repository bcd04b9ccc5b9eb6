#include "app/prompt_profile_flag.h"

#include <vector>

#include "model/found_prompt_profile.h"

namespace baleen {

void PromptProfileFlag::add_to(Options& command, const std::string& automatic) {
  std::vector<std::string> names{"auto"};
  for (const PromptRules& rules : all_prompt_rules()) names.emplace_back(rules.name);
  command.choice("--prompt-profile", name, std::move(names),
                 "By which release's rules prompts are made; official: 0731 and 0813. auto: " + automatic);
}

PromptProfile PromptProfileFlag::of(const std::filesystem::path& folder) const {
  const PromptProfile found = find_prompt_profile(folder).profile.value;
  // What its encoder says of the format stays, where that is the one that was chosen.
  return chosen() && chosen()->format != found.format ? *chosen() : found;
}

}  // namespace baleen
