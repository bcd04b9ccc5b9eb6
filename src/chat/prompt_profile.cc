#include "chat/prompt_profile.h"

#include <algorithm>
#include <array>

#include "base/quoted_text.h"
#include "chat/format.h"

namespace baleen {
namespace {

constexpr std::array<ReasoningEffort, 2> kPreviewEfforts = {{{"high", ""}, {"max", chat_format::kEffortMax}}};

constexpr std::array<ReasoningEffort, 3> kOfficialEfforts = {
    {{"low", ""}, {"high", chat_format::kEffortMax}, {"max", chat_format::kEffortBeyond}}};

// As DeepSeek's API had them for the models of their time. Of `minimal` and `ultra` it said nothing then: the
// preview has no effort below high, so the least that it can do is not to think; `ultra` asks for the most.
constexpr std::array<RequestedEffort, 8> kPreviewRequests = {{{"none", ""},
                                                              {"minimal", ""},
                                                              {"low", "high"},
                                                              {"medium", "high"},
                                                              {"high", "high"},
                                                              {"xhigh", "max"},
                                                              {"max", "max"},
                                                              {"ultra", "max"}}};

constexpr std::array<RequestedEffort, 8> kOfficialRequests = {{{"none", ""},
                                                               {"minimal", "low"},
                                                               {"low", "low"},
                                                               {"medium", "high"},
                                                               {"high", "high"},
                                                               {"xhigh", "high"},
                                                               {"max", "max"},
                                                               {"ultra", "max"}}};

// The encoder of the preview takes None for high: neither has a text.
constexpr std::array<PromptRules, 2> kRules = {{{.profile = PromptProfile::kPreview,
                                                 .name = "preview",
                                                 .efforts = kPreviewEfforts,
                                                 .encoder_default = "high",
                                                 .api_default = "high",
                                                 .requested = kPreviewRequests,
                                                 .sampling = {1.0, 1.0, 1.0}},
                                                {.profile = PromptProfile::kOfficial,
                                                 .name = "official",
                                                 .efforts = kOfficialEfforts,
                                                 .encoder_default = "low",
                                                 .api_default = "high",
                                                 .requested = kOfficialRequests,
                                                 .sampling = {1.0, 1.0, 0.95}}}};

}  // namespace

std::span<const PromptRules> all_prompt_rules() { return kRules; }

const PromptRules& prompt_rules(PromptProfile profile) {
  return *std::ranges::find(kRules, profile, &PromptRules::profile);
}

std::string_view prompt_profile_name(PromptProfile profile) { return prompt_rules(profile).name; }

std::optional<PromptProfile> prompt_profile_of(std::string_view name) {
  const auto* const found = std::ranges::find(kRules, name, &PromptRules::name);
  return found == kRules.end() ? std::nullopt : std::optional(found->profile);
}

Failure not_an_effort(const PromptRules& rules, std::string_view found, std::string_view first) {
  std::string words(first);
  for (std::size_t i = 0; i < rules.efforts.size(); ++i) {
    if (!words.empty()) words += i + 1 == rules.efforts.size() ? " or " : ", ";
    words += rules.efforts[i].name;
  }
  return failure("expected {} (prompt profile {}), found {}", words, rules.name, quoted_text(found));
}

Result<std::string> effort_text(const PromptRules& rules, std::string_view name) {
  const auto found =
      std::ranges::find(rules.efforts, name.empty() ? rules.encoder_default : name, &ReasoningEffort::name);
  if (found == rules.efforts.end()) return not_an_effort(rules, name);
  return std::string(found->text);
}

const RequestedEffort* requested_effort(const PromptRules& rules, std::string_view word) {
  const auto found = std::ranges::find(rules.requested, word, &RequestedEffort::asked);
  return found == rules.requested.end() ? nullptr : &*found;
}

}  // namespace baleen
