#include "chat/json_lines.h"

#include <optional>
#include <utility>
#include <vector>

#include "chat/message_json.h"
#include "chat/parse.h"
#include "chat/render.h"
#include "chat/reply_reader.h"
#include "chat/special_strings.h"
#include "chat/tool_namespace.h"

namespace baleen {
namespace {

/// The member of that name; null when there is none.
const PythonJson& member(const PythonJson& object, std::string_view name) {
  static const PythonJson kNull;
  const PythonJson* value = object.find(name);
  return value == nullptr ? kNull : *value;
}

Result<PythonJson> parse_request(std::string_view line) {
  Result<PythonJson> request = parse_python_json(line);
  if (!request) return failure("not a line of JSON: {}", request.error());
  if (request.value().as_object() == nullptr) {
    return failure("expected one JSON object a line, found {}", request.value().kind());
  }
  return request;
}

Result<bool> flag(const PythonJson& request, std::string_view name, bool otherwise) {
  const PythonJson& value = member(request, name);
  if (value.is_null()) return otherwise;
  if (value.as_bool() == nullptr) return failure("{}: expected true or false, found {}", name, value.kind());
  return *value.as_bool();
}

/// `otherwise` is for requests without a mode; without it the mode is required.
Result<RenderedConversation> render_request(const PythonJson& fields, std::optional<ThinkingMode> otherwise,
                                            const PromptProfile& profile) {
  const auto messages = messages_from_json(member(fields, "messages"), "messages", prompt_rules(profile));
  if (!messages) return Failure{messages.error()};
  const bool has_context = !member(fields, "context").is_null();
  const auto context =
      messages_from_json(has_context ? member(fields, "context") : PythonJson(PythonJson::Array{}), "context",
                         prompt_rules(profile));
  if (!context) return Failure{context.error()};
  const PythonJson& mode_name = member(fields, "thinking_mode");
  const auto mode = mode_name.is_null() && otherwise ? Result<ThinkingMode>(*otherwise)
                                                     : thinking_mode_from_json(mode_name);
  if (!mode) return Failure{mode.error()};
  const auto effort = reasoning_effort_from_json(member(fields, "reasoning_effort"));
  if (!effort) return Failure{effort.error()};
  const auto drop_thinking = flag(fields, "drop_thinking", true),
             add_bos = flag(fields, "add_default_bos", true);
  if (!drop_thinking) return Failure{drop_thinking.error()};
  if (!add_bos) return Failure{add_bos.error()};
  return render_conversation(messages.value(), {.profile = profile,
                                                .thinking_mode = mode.value(),
                                                .reasoning_effort = effort.value(),
                                                .drop_thinking = drop_thinking.value(),
                                                .add_bos = add_bos.value(),
                                                .context = context.value()});
}

Result<std::string> encode(std::string_view line, const PromptProfile& profile) {
  const Result<PythonJson> request = parse_request(line);
  if (!request) return Failure{request.error()};
  Result<RenderedConversation> rendered = render_request(request.value(), std::nullopt, profile);
  if (!rendered) return Failure{rendered.error()};
  return std::move(rendered).value().text.text;
}

Result<Message> parse(std::string_view line, const CallTags& tags) {
  const Result<PythonJson> request = parse_request(line);
  if (!request) return Failure{request.error()};
  const PythonJson& text = member(request.value(), "text");
  if (text.as_string() == nullptr) return failure("text: expected a string, found {}", text.kind());
  const auto mode = thinking_mode_from_json(member(request.value(), "thinking_mode"));
  if (!mode) return Failure{mode.error()};
  return parse_completion(*text.as_string(), mode.value(), tags);
}

Result<std::vector<DeclaredTool>> declared_tools(const PythonJson& list, const PromptRules& rules) {
  std::vector<DeclaredTool> tools;
  if (list.is_null()) return tools;
  if (list.as_array() == nullptr) return failure("tools: expected an array, found {}", list.kind());
  for (const PythonJson& tool : *list.as_array()) {
    const PythonJson* function = tool.find("function");
    const PythonJson& declared = function == nullptr ? tool : *function;
    const PythonJson& name = member(declared, "name");
    if (name.as_string() == nullptr)
      return failure("tools[{}].function.name: expected a string, found {}", tools.size(), name.kind());
    Result<std::string> qualified = *name.as_string();
    if (rules.has_namespaces) {
      const PythonJson* around = tool.find("namespace");
      qualified =
          qualified_tool_name(*name.as_string(), around == nullptr ? declared.find("namespace") : around);
    }
    if (!qualified) return failure("tools[{}].function.name: {}", tools.size(), qualified.error());
    tools.push_back({qualified.value(), member(declared, "parameters")});
  }
  return tools;
}

/// "text", or "pieces" that tell tokens from text.
Result<MarkedText> completion_of(const PythonJson& request) {
  const PythonJson& text = member(request, "text");
  if (text.as_string() != nullptr) return with_marked_specials(*text.as_string());
  const PythonJson& pieces = member(request, "pieces");
  if (pieces.as_array() == nullptr)
    return failure("text: expected a string, found {} (or pieces, an array)", text.kind());
  MarkedText completion;
  for (const PythonJson& piece : *pieces.as_array()) {
    const PythonJson& special = member(piece, "special");
    if (piece.as_string() == nullptr && special.as_string() == nullptr)
      return failure("pieces: expected strings and objects with the string \"special\", found {}",
                     piece.kind());
    if (piece.as_string() != nullptr) {
      completion.add_text(*piece.as_string());
    } else {
      completion.add_control(*special.as_string());
    }
  }
  return completion;
}

struct ReadLine {
  Message message{.role = Role::kAssistant};
  std::size_t num_dropped = 0, num_repairs = 0;
};

Result<ReadLine> read_reply(std::string_view line, const PromptRules& rules) {
  const Result<PythonJson> parsed = parse_request(line);
  if (!parsed) return Failure{parsed.error()};
  const PythonJson& request = parsed.value();
  const auto completion = completion_of(request);
  if (!completion) return Failure{completion.error()};
  const auto mode = thinking_mode_from_json(member(request, "thinking_mode"));
  if (!mode) return Failure{mode.error()};
  const auto tools = declared_tools(member(request, "tools"), rules);
  if (!tools) return Failure{tools.error()};
  const auto cut = flag(request, "cut", false), enforced = flag(request, "enforced", false);
  if (!cut) return Failure{cut.error()};
  if (!enforced) return Failure{enforced.error()};

  ReplyReader reader(mode.value(), tools.value(),
                     enforced.value() ? CallEnforcement::kFromToken : CallEnforcement::kNone, rules.tags);
  ReadLine read;
  const auto keep = [&read](const std::vector<ReplyPart>& parts) {
    for (const ReplyPart& part : parts) {
      if (part.kind == ReplyPart::Kind::kReasoning) read.message.reasoning_content += part.text;
      if (part.kind == ReplyPart::Kind::kContent) read.message.content += part.text;
    }
  };
  keep(reader.feed(completion.value()));
  keep(reader.finish(cut.value()));
  read.message.tool_calls.assign(reader.calls().begin(), reader.calls().end());
  read.num_dropped = reader.num_dropped_calls();
  read.num_repairs = reader.num_repairs();
  return read;
}

PythonJson number(std::size_t count) { return PythonJson(PythonJson::Number{std::to_string(count)}); }

std::string reply(const char* name, PythonJson value) {
  return dump_python_json(PythonJson(PythonJson::Object{{name, std::move(value)}}));
}

}  // namespace

Result<RenderedConversation> render_conversation_json(const PythonJson& object, ThinkingMode otherwise,
                                                      const PromptProfile& profile) {
  return render_request(object, otherwise, profile);
}

std::string encode_chat_line(std::string_view line, const PromptProfile& profile) {
  const Result<std::string> prompt = encode(line, profile);
  return prompt ? reply("prompt", prompt.value()) : reply("error", prompt.error());
}

std::string read_reply_line(std::string_view line, const PromptProfile& profile) {
  const Result<ReadLine> read = read_reply(line, prompt_rules(profile));
  if (!read) return reply("error", read.error());
  return dump_python_json(PythonJson(PythonJson::Object{{"message", message_to_json(read.value().message)},
                                                        {"dropped_calls", number(read.value().num_dropped)},
                                                        {"repairs", number(read.value().num_repairs)}}));
}

std::string parse_chat_line(std::string_view line, const PromptProfile& profile) {
  const Result<Message> message = parse(line, call_tags(profile));
  return message ? reply("message", message_to_json(message.value())) : reply("error", message.error());
}

}  // namespace baleen
