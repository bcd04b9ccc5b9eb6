/// `--think` and `/think`: whether to think, and by which effort of the model's prompt profile.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/number.h"
#include "chat/message.h"
#include "chat/prompt_profile.h"

namespace baleen {

struct Thinking {
  std::string effort;  ///< one that the profile has; empty: the model does not think

  [[nodiscard]] ThinkingMode mode() const {
    return effort.empty() ? ThinkingMode::kChat : ThinkingMode::kThinking;
  }
  /// "off", or the effort.
  [[nodiscard]] std::string name() const { return effort.empty() ? "off" : effort; }
};

/// "off" or an effort of the profile. The failure names those: `expected off, high or max (prompt profile
/// preview), found "low"`.
[[nodiscard]] Result<Thinking> thinking_named(const PromptProfile& profile, std::string_view name);

/// "off", then the named efforts of every profile: what `--think` takes before a model is known, beside
/// numbers.
[[nodiscard]] std::vector<std::string> all_thinking_names();
/// Numbers that are efforts where efforts are numbers.
inline constexpr WholeRange kThinkingNumbers{kMinEffort, kMaxEffort};

/// What a description of such an option ends with: `(preview: high, max; official: low, high, max;
/// v4.1: low, high, max, 1 to 100)`.
[[nodiscard]] std::string efforts_by_profile();

}  // namespace baleen
