/// Keeps one sequence alive between the turns of a conversation, so that a turn computes only what is new.
#pragma once

#include <optional>
#include <vector>

#include "base/marked_text.h"
#include "engine/step_engine.h"
#include "generation/generate.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

class ConversationEngine {
 public:
  /// Both must outlive this. `controls_in_content`: special strings anywhere in the prompt become control
  /// tokens, not only the marked ones.
  ConversationEngine(StepEngine& engine, const Tokenizer& tokenizer, bool controls_in_content = false)
      : engine_(engine), tokenizer_(tokenizer), controls_in_content_(controls_in_content) {}

  /// Replies to `prompt`, the whole rendered conversation. When it begins with what the sequence has already
  /// seen, only the rest is computed; otherwise (a new conversation, or reasoning that the format drops) the
  /// sequence starts anew.
  Result<Generated> reply(const MarkedText& prompt, GenerationRequest request,
                          const GenerationCallbacks& callbacks);

  /// Positions in the cache.
  [[nodiscard]] std::int64_t length() const { return static_cast<std::int64_t>(seen_.size()); }

 private:
  /// With a sequence that will be fed so many tokens before its first reply.
  void start_anew(std::int64_t prompt_tokens);

  StepEngine& engine_;
  const Tokenizer& tokenizer_;
  bool controls_in_content_;
  std::optional<SequenceId> sequence_;
  std::vector<TokenId> seen_;
};

}  // namespace baleen
