/// What differs between the prompts of the releases, one row of a table for each profile: efforts, the tags
/// of tool calls, how instructions stand in a conversation. All else of the format is the same (format.h).
/// Which profile a checkpoint has is found by model/found_prompt_profile.h. (source: releases specification
/// 3)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/call_tags.h"

namespace baleen {

/// `kPreview`: of the previews and their DSpark checkpoints. `kOfficial`: of V4-Flash-0731 and V4-Pro-0813.
/// `kV41`: of V4.1.
enum class PromptFormat : std::uint8_t { kPreview, kOfficial, kV41 };

/// Words for efforts where efforts are numbers, the least first. A checkpoint has some of them.
inline constexpr std::array<std::string_view, 4> kEffortWords = {"low", "high", "xhigh", "max"};
inline constexpr int kMinEffort = 1, kMaxEffort = 100;

/// Which number each word means to a checkpoint: that of V4.1-Flash, where its own encoder says no other.
struct EffortNumbers {
  std::array<std::uint8_t, kEffortWords.size()> numbers{50, 75, 0, 100};  ///< 0: it has no such word
  std::size_t standard = 1;  ///< where a call of the shipped encoder names none

  bool operator==(const EffortNumbers&) const = default;
};

/// By which rules the prompts of a model are made: those of a format, and what its own encoder has besides.
struct PromptProfile {
  PromptFormat format;
  EffortNumbers numbers = {};  ///< used where the format's efforts are numbers

  static const PromptProfile kPreview, kOfficial, kV41;

  bool operator==(const PromptProfile&) const = default;
};
inline constexpr PromptProfile PromptProfile::kPreview{PromptFormat::kPreview};
inline constexpr PromptProfile PromptProfile::kOfficial{PromptFormat::kOfficial};
inline constexpr PromptProfile PromptProfile::kV41{PromptFormat::kV41};

/// How hard to think: a text before all others, in thinking mode only.
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
  PromptFormat format;
  std::string_view name;
  std::span<const ReasoningEffort> efforts;    ///< the least first; none: efforts are numbers from 1 to 100
  std::string_view encoder_default;            ///< the shipped encoder's; of numbers the checkpoint's
  std::string_view api_default;                ///< DeepSeek's API's; of numbers the checkpoint's
  std::span<const RequestedEffort> requested;  ///< the least first; the first is "none"
  RecommendedSampling sampling;
  const CallTags& tags;

  /// The token before instructions. Empty: a system message is text without a token. Otherwise one at the
  /// beginning, before the effort and the first system message, and one before each later system message,
  /// which counts as a user's turn: the model replies to it. A developer is the system then, not a user.
  std::string_view system_token = {};
  /// Tools are named "namespace::name", the description of the namespace stands before theirs.
  bool has_namespaces = false;
  /// Arguments of calls that are JSON, but no object, become one raw parameter, as text that is no JSON does
  /// in every profile; JSON of JSON is read. False: they are refused.
  bool takes_any_arguments = false;
  /// The model was trained on images, for which this program computes nothing: they are refused instead of
  /// being left out. Messages may be lists of parts.
  bool has_images = false;

  [[nodiscard]] bool has_numbers() const { return efforts.empty(); }
};

/// Every profile's.
[[nodiscard]] std::span<const PromptRules> all_prompt_rules();
[[nodiscard]] const PromptRules& prompt_rules(const PromptProfile& profile);
[[nodiscard]] inline const CallTags& call_tags(const PromptProfile& profile) {
  return prompt_rules(profile).tags;
}

/// "preview", "official", "v4.1"
[[nodiscard]] std::string_view prompt_profile_name(const PromptProfile& profile);
/// The profile of that name, with the numbers of V4.1-Flash. Nothing for another name.
[[nodiscard]] std::optional<PromptProfile> prompt_profile_of(std::string_view name);

/// The efforts that have names, the least first.
[[nodiscard]] std::vector<std::string_view> effort_names(const PromptProfile& profile);
/// As in `PromptRules`.
[[nodiscard]] std::string_view encoder_default(const PromptProfile& profile);
[[nodiscard]] std::string_view api_default(const PromptProfile& profile);
/// The number that a name or a number ("37") means to a profile with numbers; nothing for others.
[[nodiscard]] std::optional<int> effort_number(const PromptProfile& profile, std::string_view name);

/// The text of that effort, of the encoder's default for an empty name; else `not_an_effort`.
[[nodiscard]] Result<std::string> effort_text(const PromptProfile& profile, std::string_view name);
/// `expected low, high or max (prompt profile official), found "medium"`. `first` leads the efforts.
[[nodiscard]] Failure not_an_effort(const PromptProfile& profile, std::string_view found,
                                    std::string_view first = {});

/// What a word of an API means, or a number as text where efforts are numbers; nothing for another text.
/// Every profile has the same words.
[[nodiscard]] std::optional<RequestedEffort> requested_effort(const PromptProfile& profile,
                                                              std::string_view word);

}  // namespace baleen
