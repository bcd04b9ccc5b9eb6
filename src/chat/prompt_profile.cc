#include "chat/prompt_profile.h"

#include <algorithm>
#include <charconv>

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

const auto& rules_table() {
  // The encoder of the preview takes None for high: neither has a text.
  static const std::array<PromptRules, 3> table = {{{.format = PromptFormat::kPreview,
                                                     .name = "preview",
                                                     .efforts = kPreviewEfforts,
                                                     .encoder_default = "high",
                                                     .api_default = "high",
                                                     .requested = kPreviewRequests,
                                                     .sampling = {1.0, 1.0, 1.0},
                                                     .tags = joined_call_tags()},
                                                    {.format = PromptFormat::kOfficial,
                                                     .name = "official",
                                                     .efforts = kOfficialEfforts,
                                                     .encoder_default = "low",
                                                     .api_default = "high",
                                                     .requested = kOfficialRequests,
                                                     .sampling = {1.0, 1.0, 0.95},
                                                     .tags = joined_call_tags()},
                                                    {.format = PromptFormat::kV41,
                                                     .name = "v4.1",
                                                     .efforts = {},
                                                     .encoder_default = {},
                                                     .api_default = {},
                                                     .requested = kOfficialRequests,
                                                     .sampling = {1.0, 0.95, 0.95},
                                                     .tags = spaced_call_tags(),
                                                     .system_token = chat_format::kSystem,
                                                     .has_namespaces = true,
                                                     .takes_any_arguments = true,
                                                     .has_images = true}}};
  return table;
}

}  // namespace

std::span<const PromptRules> all_prompt_rules() { return rules_table(); }

const PromptRules& prompt_rules(const PromptProfile& profile) {
  return *std::ranges::find(rules_table(), profile.format, &PromptRules::format);
}

std::string_view prompt_profile_name(const PromptProfile& profile) { return prompt_rules(profile).name; }

std::optional<PromptProfile> prompt_profile_of(std::string_view name) {
  const auto* const found = std::ranges::find(rules_table(), name, &PromptRules::name);
  if (found == rules_table().end()) return std::nullopt;
  return PromptProfile{found->format};
}

std::vector<std::string_view> effort_names(const PromptProfile& profile) {
  const PromptRules& rules = prompt_rules(profile);
  std::vector<std::string_view> names;
  for (const ReasoningEffort& effort : rules.efforts) names.push_back(effort.name);
  for (std::size_t i = 0; i < kEffortWords.size() && rules.has_numbers(); ++i) {
    if (profile.numbers.numbers[i] != 0) names.push_back(kEffortWords[i]);
  }
  return names;
}

std::string_view encoder_default(const PromptProfile& profile) {
  const PromptRules& rules = prompt_rules(profile);
  return rules.has_numbers() ? kEffortWords[profile.numbers.standard] : rules.encoder_default;
}

std::string_view api_default(const PromptProfile& profile) {
  const PromptRules& rules = prompt_rules(profile);
  return rules.has_numbers() ? kEffortWords[profile.numbers.standard] : rules.api_default;
}

std::optional<int> effort_number(const PromptProfile& profile, std::string_view name) {
  if (!prompt_rules(profile).has_numbers()) return std::nullopt;
  const auto* const word = std::ranges::find(kEffortWords, name);
  if (word != kEffortWords.end()) {
    const int number = profile.numbers.numbers[static_cast<std::size_t>(word - kEffortWords.begin())];
    return number == 0 ? std::nullopt : std::optional(number);
  }
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size() && !name.starts_with('0');
  if (!is_number || number < kMinEffort || number > kMaxEffort) return std::nullopt;
  return number;
}

Failure not_an_effort(const PromptProfile& profile, std::string_view found, std::string_view first) {
  std::vector<std::string> choices;
  if (!first.empty()) choices.emplace_back(first);
  for (const std::string_view name : effort_names(profile)) choices.emplace_back(name);
  if (prompt_rules(profile).has_numbers())
    choices.push_back(fmt::format("a number from {} to {}", kMinEffort, kMaxEffort));
  std::string words;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (!words.empty()) words += i + 1 == choices.size() ? " or " : ", ";
    words += choices[i];
  }
  return failure("expected {} (prompt profile {}), found {}", words, prompt_profile_name(profile),
                 quoted_text(found));
}

Result<std::string> effort_text(const PromptProfile& profile, std::string_view name) {
  const PromptRules& rules = prompt_rules(profile);
  if (name.empty()) name = encoder_default(profile);
  if (rules.has_numbers()) {
    const std::optional<int> number = effort_number(profile, name);
    if (!number) return not_an_effort(profile, name);
    return fmt::format(chat_format::kEffortNumber, *number);
  }
  const auto found = std::ranges::find(rules.efforts, name, &ReasoningEffort::name);
  if (found == rules.efforts.end()) return not_an_effort(profile, name);
  return std::string(found->text);
}

std::optional<RequestedEffort> requested_effort(const PromptProfile& profile, std::string_view word) {
  const PromptRules& rules = prompt_rules(profile);
  // A word of the model's own encoder means what that says.
  if (rules.has_numbers() && effort_number(profile, word)) return RequestedEffort{word, word};
  const auto found = std::ranges::find(rules.requested, word, &RequestedEffort::asked);
  return found == rules.requested.end() ? std::nullopt : std::optional(*found);
}

}  // namespace baleen
