/// What one record of a corpus trains: its text with the control tokens marked, and which part of it is
/// predicted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/marked_text.h"
#include "chat/message.h"
#include "chat/prompt_profile.h"
#include "tokenizer/tokenizer.h"
#include "training_data/corpus.h"

namespace baleen {

struct TrainingText {
  MarkedText text;
  std::vector<TextRange> targets;  ///< ranges of bytes, in order and disjoint
};

struct RecordRules {
  std::string field = "text";                        ///< what JSON lines without "messages" call their text
  ThinkingMode thinking_mode = ThinkingMode::kChat;  ///< mode of conversations that do not say
  PromptProfile prompt_profile = PromptProfile::kPreview;  ///< whose efforts conversations may name
};

/// A text becomes BOS, text, end token, all of it but BOS a target; what it spells is text, never a control
/// token. An object with "messages" is a conversation in the V4 format (as `baleen encode-chat` takes it), of
/// which the assistant's replies are targets. The failure does not name the place.
[[nodiscard]] Result<TrainingText> training_text_of(const CorpusRecord& record, const RecordRules& rules);

struct TokenDocument {
  std::vector<TokenId> tokens;
  std::vector<std::uint8_t> is_target;  ///< [tokens.size()]; the first is 0
  std::int64_t num_targets = 0;
  std::int64_t num_text_bytes = 0;  ///< size of text, control tokens not counted
};

/// A token is a target where its first byte is. Fails where the tokenizer lacks a control token of the text,
/// and where `Tokenizer::encode` does.
[[nodiscard]] Result<TokenDocument> encode_document(const Tokenizer& tokenizer, const TrainingText& text);

}  // namespace baleen
