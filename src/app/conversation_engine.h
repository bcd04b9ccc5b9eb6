/// Keeps one sequence alive between the turns of a conversation, so that a turn computes only what is new.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "generation/generate.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

class ConversationEngine {
 public:
  /// All must outlive this.
  ConversationEngine(Engine& engine, const Tokenizer& tokenizer) : engine_(engine), tokenizer_(tokenizer) {}

  /// Replies to `prompt`, the whole rendered conversation. When it begins with what the sequence has already
  /// seen, only the rest is computed; otherwise (a new conversation, or reasoning that the format drops) the
  /// sequence starts anew.
  Result<Generated> reply(const std::string& prompt, GenerationRequest request,
                          const GenerationCallbacks& callbacks);

  /// Positions in the cache.
  [[nodiscard]] std::int64_t length() const { return static_cast<std::int64_t>(seen_.size()); }

 private:
  void start_anew();

  Engine& engine_;
  const Tokenizer& tokenizer_;
  std::optional<SequenceId> sequence_;
  std::vector<TokenId> seen_;
};

}  // namespace baleen
