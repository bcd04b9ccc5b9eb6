/// What differs between the prompts of the releases: the efforts, one row of a table for each profile. All
/// else of the format is the same (format.h). Which profile a checkpoint has is found by
/// model/found_prompt_profile.h. (source: releases specification 3)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace baleen {

/// `kPreview`: of the previews and their DSpark checkpoints. `kOfficial`: of V4-Flash-0731 and V4-Pro-0813.
enum class PromptProfile : std::uint8_t { kPreview, kOfficial };

/// How hard to think: a text directly after BOS, in thinking mode only.
struct ReasoningEffort {
  std::string_view name;
  std::string_view text;
};

/// What a word of an API means.
struct RequestedEffort {
  std::string_view asked;
  std::string_view effort;  ///< one that the profile has; empty: the model does not think
};

/// As the model's card recommends.
struct RecommendedSampling {
  double temperature;
  double top_p;
  double agentic_top_p;  ///< where the model calls tools
};

struct PromptRules {
  PromptProfile profile;
  std::string_view name;
  std::span<const ReasoningEffort> efforts;    ///< the least first
  std::string_view encoder_default;            ///< where a call of the shipped encoder names none
  std::string_view api_default;                ///< where a request to think names none, at DeepSeek's API
  std::span<const RequestedEffort> requested;  ///< the least first; the first is "none"
  RecommendedSampling sampling;
};

/// Every profile's.
[[nodiscard]] std::span<const PromptRules> all_prompt_rules();
[[nodiscard]] const PromptRules& prompt_rules(PromptProfile profile);

/// "preview", "official"
[[nodiscard]] std::string_view prompt_profile_name(PromptProfile profile);
/// Nothing for another name.
[[nodiscard]] std::optional<PromptProfile> prompt_profile_of(std::string_view name);

/// The text of the effort of that name, of `encoder_default` for an empty name; else `not_an_effort`.
[[nodiscard]] Result<std::string> effort_text(const PromptRules& rules, std::string_view name);
/// `expected low, high or max (prompt profile official), found "medium"`. `first` leads the efforts.
[[nodiscard]] Failure not_an_effort(const PromptRules& rules, std::string_view found,
                                    std::string_view first = {});

/// What a word of an API means; null: no API has that word. Every profile has the same words.
[[nodiscard]] const RequestedEffort* requested_effort(const PromptRules& rules, std::string_view word);

}  // namespace baleen
