/// Rewards that rules decide: an exact answer, a regular expression, a tool call.     (source: training 13)
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "chat/call_tags.h"
#include "chat/message.h"
#include "trainer/config/train_config.h"

namespace baleen {

/// A regular expression (PCRE2, UTF-8) that is looked for anywhere in a text. Matching gives up, without a
/// match, after a bounded number of steps.
class RewardPattern {
 public:
  /// Throws `Error` with the place where the expression is wrong.
  explicit RewardPattern(const std::string& expression);
  [[nodiscard]] bool found_in(std::string_view text) const;

 private:
  std::shared_ptr<void> code_;
};

/// What one prompt is rewarded for; what is empty is not looked at.
struct RewardRule {
  std::optional<std::string> answer;     ///< the reply's content, but for white space around it
  std::optional<RewardPattern> pattern;  ///< somewhere in the content
  std::optional<ToolCall> call;          ///< the only call; arguments are compared as JSON
};

/// Sum of the weights of what `reply` has. `reply`: a completion without its end token, which begins after
/// the transition of `mode`. One that is cut or cannot be parsed has its whole text for content and no call.
[[nodiscard]] double reward(const RewardConfig& weights, const RewardRule& rule, std::string_view reply,
                            ThinkingMode mode, bool ended, const CallTags& tags = joined_call_tags());

}  // namespace baleen
