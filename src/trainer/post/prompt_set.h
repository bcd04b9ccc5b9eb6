/// The prompts that a policy answers while it is trained, each with what it is rewarded for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "chat/prompt_profile.h"
#include "tokenizer/tokenizer.h"
#include "trainer/post/reward.h"

namespace baleen {

struct PolicyPrompt {
  std::vector<TokenId> tokens;  ///< BOS first
  ThinkingMode mode = ThinkingMode::kChat;
  RewardRule rule;
  std::string domain;                               ///< chooses among teachers
  PromptProfile profile = PromptProfile::kPreview;  ///< whose rules it was made by
};

/// JSON lines. The prompt is a text, `"prompt": ...`, or a conversation, `"messages": [...]`, as `baleen
/// encode-chat` takes it, with efforts of `profile`. The rule is any of `"answer": ...`, `"pattern": ...` and
/// `"call": {"name": ..., "arguments": {...}}`, and `"domain": ...` names one. Throws `Error` with file and
/// line for a line without prompt, without rule where `needs_rule`, and for prompts of more than `max_tokens`
/// tokens.
[[nodiscard]] std::vector<PolicyPrompt> read_prompts(const std::filesystem::path& file,
                                                     const Tokenizer& tokenizer, PromptProfile profile,
                                                     std::int64_t max_tokens, bool needs_rule = true);

}  // namespace baleen
