#include "trainer/post/prompt_set.h"

#include "base/error.h"
#include "chat/format.h"
#include "chat/json_lines.h"
#include "chat/message_json.h"
#include "chat/python_json.h"
#include "training_data/corpus.h"

namespace baleen {
namespace {

std::optional<std::string> text_of(const PythonJson& object, std::string_view name) {
  const PythonJson* value = object.find(name);
  if (value == nullptr) return std::nullopt;
  if (value->as_string() == nullptr) fail("{}: expected a text, found {}", name, value->kind());
  return *value->as_string();
}

ThinkingMode mode_of(const PythonJson& object) {
  const PythonJson* mode = object.find("thinking_mode");
  if (mode == nullptr) return ThinkingMode::kChat;
  Result<ThinkingMode> result = thinking_mode_from_json(*mode);
  if (!result) fail("thinking_mode: {}", result.error());
  return result.value();
}

MarkedText prompt_of(const PythonJson& object, ThinkingMode mode, PromptProfile profile) {
  if (const std::optional<std::string> prompt = text_of(object, "prompt")) {
    MarkedText text;
    text.add_control(chat_format::kBos);
    text.add_text(*prompt);
    return text;
  }
  if (object.find("messages") == nullptr) fail("expected \"prompt\" or \"messages\"");
  Result<RenderedConversation> rendered = render_conversation_json(object, mode, profile);
  if (!rendered) fail("{}", rendered.error());
  return std::move(rendered).value().text;
}

RewardRule rule_of(const PythonJson& object) {
  RewardRule rule{.answer = text_of(object, "answer"), .pattern = {}, .call = {}};
  if (const std::optional<std::string> pattern = text_of(object, "pattern")) rule.pattern.emplace(*pattern);
  if (const PythonJson* call = object.find("call")) {
    const PythonJson* arguments = call->find("arguments");
    if (call->as_object() == nullptr || arguments == nullptr || arguments->as_object() == nullptr)
      fail("call: expected an object with \"name\" and an object \"arguments\"");
    rule.call = ToolCall{
        .id = {}, .name = text_of(*call, "name").value_or(""), .arguments = dump_python_json(*arguments)};
  }
  return rule;
}

PolicyPrompt read_prompt(const std::string& line, const Tokenizer& tokenizer, PromptProfile profile,
                         std::int64_t max_tokens, bool needs_rule) {
  const Result<PythonJson> parsed = parse_python_json(line);
  if (!parsed) fail("not a line of JSON: {}", parsed.error());
  const PythonJson& object = parsed.value();
  if (object.as_object() == nullptr) fail("expected an object, found {}", object.kind());
  PolicyPrompt prompt{.tokens = {},
                      .mode = mode_of(object),
                      .rule = rule_of(object),
                      .domain = text_of(object, "domain").value_or(""),
                      .profile = profile};
  if (needs_rule && !prompt.rule.answer && !prompt.rule.pattern && !prompt.rule.call)
    fail("no reward: expected \"answer\", \"pattern\" or \"call\"");
  Result<std::vector<TokenId>> tokens = tokenizer.encode(prompt_of(object, prompt.mode, profile));
  if (!tokens) fail("{}", tokens.error());
  prompt.tokens = std::move(tokens).value();
  if (static_cast<std::int64_t>(prompt.tokens.size()) > max_tokens)
    fail("a prompt of {} tokens, expected at most rollout.prompt_tokens, {}", prompt.tokens.size(),
         max_tokens);
  return prompt;
}

}  // namespace

std::vector<PolicyPrompt> read_prompts(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                       PromptProfile profile, std::int64_t max_tokens, bool needs_rule) {
  Corpus corpus({file}, CorpusFormat::kJsonLines, TextRecords::kFiles);
  std::vector<PolicyPrompt> prompts;
  std::vector<CorpusRecord> records;
  while (corpus.next_records(records, kRecordBytesAtOnce)) {
    for (const CorpusRecord& record : records) {
      try {
        prompts.push_back(read_prompt(record.text, tokenizer, profile, max_tokens, needs_rule));
      } catch (const Error& error) {
        fail("{}: {}", corpus.place(record), error.what());
      }
    }
  }
  return prompts;
}

}  // namespace baleen
