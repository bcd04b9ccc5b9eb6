/// The model behind the server, as its requests need to know it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/repetition_limits.h"
#include "chat/prompt_profile.h"
#include "engine/step_engine.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

struct ServedModel {
  std::string name;                      ///< what clients call it
  bool any_name = false;                 ///< whatever they call it
  const Tokenizer* tokenizer = nullptr;  ///< outlives the server
  EngineLimits limits;
  TokenId bos = 0;
  TokenId eos = 1;
  std::int64_t max_reply_tokens = 0;  ///< for requests that do not say; 0: as many as the context holds
  double temperature = 1.0;           ///< for requests that do not say
  double top_p = 1.0;
  bool think_by_default = false;
  PromptProfile prompt_profile = PromptProfile::kPreview;
  std::optional<std::int64_t> thinking_budget = {};  ///< tokens of thinking, for requests that do not say
  std::optional<RepetitionLimits> repetition = RepetitionLimits();  ///< none: only where a request asks
  /// As the official encoder: special strings in what messages say become control tokens. Who writes them may
  /// then forge turns.
  bool controls_in_content = false;
  std::int64_t bounded_replay_tokens = 0;  ///< last tokens of a prompt that all layers compute; 0: all
  std::int64_t num_layers = 0;
  std::int64_t num_experts = 0;
  std::int64_t created_unix_seconds = 0;
};

}  // namespace baleen
