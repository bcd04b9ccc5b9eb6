#include "app/conversation_engine.h"

#include <algorithm>
#include <utility>

namespace baleen {

void ConversationEngine::start_anew(std::int64_t prompt_tokens) {
  if (sequence_) engine_.close(*sequence_, false);
  sequence_ = engine_.open_prompt({}, prompt_tokens);
  seen_.clear();
}

Result<Generated> ConversationEngine::reply(const MarkedText& prompt, GenerationRequest request,
                                            const GenerationCallbacks& callbacks) {
  auto encoded = controls_in_content_ ? tokenizer_.encode(prompt.text) : tokenizer_.encode(prompt);
  if (!encoded) return failure("the conversation is not text: {}", encoded.error());
  const std::vector<TokenId> tokens = std::move(encoded).value();
  if (static_cast<std::int64_t>(tokens.size()) >= engine_.limits().context_tokens) {
    return failure("the conversation has {} tokens, the context holds {}; /new starts another", tokens.size(),
                   engine_.limits().context_tokens);
  }
  const bool continues =
      sequence_ && seen_.size() < tokens.size() && std::equal(seen_.begin(), seen_.end(), tokens.begin());
  if (!continues) start_anew(std::ssize(tokens));
  request.prompt.assign(tokens.begin() + static_cast<std::ptrdiff_t>(seen_.size()), tokens.end());
  request.history = seen_;
  Result<Generated> generated = generate(engine_, tokenizer_, *sequence_, request, callbacks);
  if (!generated) {
    engine_.close(*std::exchange(sequence_, std::nullopt), false);
    seen_.clear();
    return generated;
  }
  const auto fed = static_cast<std::size_t>(generated.value().fed_tokens);
  std::vector<TokenId> offered = request.prompt;
  offered.insert(offered.end(), generated.value().tokens.begin(), generated.value().tokens.end());
  seen_.insert(seen_.end(), offered.begin(), offered.begin() + static_cast<std::ptrdiff_t>(fed));
  return generated;
}

}  // namespace baleen
