/// `--think` and `/think`: whether to think, and by which effort of the model's prompt profile.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
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
[[nodiscard]] Result<Thinking> thinking_named(const PromptRules& rules, std::string_view name);

/// "off", then the efforts of every profile: what `--think` takes before a model is known.
[[nodiscard]] std::vector<std::string> all_thinking_names();

/// What a description of such an option ends with: `(preview: high, max; official: low, high, max)`.
[[nodiscard]] std::string efforts_by_profile();

}  // namespace baleen
