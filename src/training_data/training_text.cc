#include "training_data/training_text.h"

#include <utility>

#include "base/check.h"
#include "base/quoted_text.h"
#include "base/utf8.h"
#include "chat/format.h"
#include "chat/json_lines.h"
#include "chat/python_json.h"

namespace baleen {
namespace {

Result<TrainingText> document_of(std::string_view text) {
  if (text.empty()) return failure("the text is empty");
  // The tokenizer would count bytes from the token before it.
  if (const auto invalid = find_invalid_utf8(text))
    return failure("byte {} is not UTF-8 (0x{:02X}); is this text?", *invalid,
                   static_cast<unsigned char>(text[*invalid]));
  TrainingText document;
  document.text.add_control(chat_format::kBos);
  const std::size_t begin = document.text.text.size();
  document.text.add_text(text);
  document.text.add_control(chat_format::kEos);
  document.targets = {{begin, document.text.text.size() - begin}};
  return document;
}

Result<TrainingText> conversation_of(const PythonJson& object, const RecordRules& rules) {
  Result<RenderedConversation> rendered =
      render_conversation_json(object, rules.thinking_mode, rules.prompt_profile);
  if (!rendered) return Failure{rendered.error()};
  RenderedConversation conversation = std::move(rendered).value();
  if (conversation.replies.empty())
    return failure("messages: no assistant message; there is nothing to learn here");
  return TrainingText{std::move(conversation.text), std::move(conversation.replies)};
}

}  // namespace

Result<TrainingText> training_text_of(const CorpusRecord& record, const RecordRules& rules) {
  if (record.format == CorpusFormat::kText) return document_of(record.text);
  const Result<PythonJson> parsed = parse_python_json(record.text);
  if (!parsed) return failure("not a line of JSON: {}", parsed.error());
  const PythonJson& object = parsed.value();
  if (object.as_object() == nullptr)
    return failure("expected one JSON object a line, found {}", object.kind());
  if (object.find("messages") != nullptr) return conversation_of(object, rules);
  const PythonJson* field = object.find(rules.field);
  if (field == nullptr)
    return failure("no {} here, and no \"messages\"; ‹text field› names another one",
                   quoted_text(rules.field));
  if (field->as_string() == nullptr)
    return failure("{}: expected a string, found {}", quoted_text(rules.field), field->kind());
  return document_of(*field->as_string());
}

Result<TokenDocument> encode_document(const Tokenizer& tokenizer, const TrainingText& text) {
  std::size_t control_bytes = 0;
  for (const TextRange& control : text.text.controls) {
    if (!tokenizer.id_of(text.text.text_of(control)))
      return failure("the tokenizer has no token {}, which the format needs",
                     quoted_text(text.text.text_of(control)));
    control_bytes += control.size;
  }
  Result<std::vector<TokenId>> ids = tokenizer.encode(text.text);
  if (!ids) return Failure{ids.error()};
  TokenDocument document;
  document.tokens = std::move(ids).value();
  document.is_target.resize(document.tokens.size());
  document.num_text_bytes = static_cast<std::int64_t>(text.text.text.size() - control_bytes);
  std::size_t byte = 0;  // where the token begins: byte-level tokens are the text, cut
  auto range = text.targets.begin();
  for (std::size_t i = 0; i < document.tokens.size(); ++i) {
    while (range != text.targets.end() && range->end() <= byte) ++range;
    if (i > 0 && range != text.targets.end() && range->begin <= byte) {
      document.is_target[i] = 1;
      ++document.num_targets;
    }
    byte += tokenizer.bytes_of(document.tokens[i]).size();
  }
  if (byte != text.text.text.size())
    return failure("its {} tokens spell {} bytes of {}: the tokenizer does not keep text",
                   document.tokens.size(), byte, text.text.text.size());
  return document;
}

}  // namespace baleen
