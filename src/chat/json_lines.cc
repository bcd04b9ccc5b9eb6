#include "chat/json_lines.h"

#include <vector>

#include "chat/message_json.h"
#include "chat/parse.h"
#include "chat/render.h"

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

Result<std::string> encode(std::string_view line) {
  const Result<PythonJson> request = parse_request(line);
  if (!request) return Failure{request.error()};
  const PythonJson& fields = request.value();
  const auto messages = messages_from_json(member(fields, "messages"));
  if (!messages) return Failure{messages.error()};
  const bool has_context = !member(fields, "context").is_null();
  const auto context = messages_from_json(
      has_context ? member(fields, "context") : PythonJson(PythonJson::Array{}), "context");
  if (!context) return Failure{context.error()};
  const auto mode = thinking_mode_from_json(member(fields, "thinking_mode"));
  if (!mode) return Failure{mode.error()};
  const auto effort = reasoning_effort_from_json(member(fields, "reasoning_effort"));
  if (!effort) return Failure{effort.error()};
  const auto drop_thinking = flag(fields, "drop_thinking", true),
             add_bos = flag(fields, "add_default_bos", true);
  if (!drop_thinking) return Failure{drop_thinking.error()};
  if (!add_bos) return Failure{add_bos.error()};
  return render_prompt(messages.value(), {.thinking_mode = mode.value(),
                                          .reasoning_effort = effort.value(),
                                          .drop_thinking = drop_thinking.value(),
                                          .add_bos = add_bos.value(),
                                          .context = context.value()});
}

Result<Message> parse(std::string_view line) {
  const Result<PythonJson> request = parse_request(line);
  if (!request) return Failure{request.error()};
  const PythonJson& text = member(request.value(), "text");
  if (text.as_string() == nullptr) return failure("text: expected a string, found {}", text.kind());
  const auto mode = thinking_mode_from_json(member(request.value(), "thinking_mode"));
  if (!mode) return Failure{mode.error()};
  return parse_completion(*text.as_string(), mode.value());
}

std::string reply(const char* name, PythonJson value) {
  return dump_python_json(PythonJson(PythonJson::Object{{name, std::move(value)}}));
}

}  // namespace

std::string encode_chat_line(std::string_view line) {
  const Result<std::string> prompt = encode(line);
  return prompt ? reply("prompt", prompt.value()) : reply("error", prompt.error());
}

std::string parse_chat_line(std::string_view line) {
  const Result<Message> message = parse(line);
  return message ? reply("message", message_to_json(message.value())) : reply("error", message.error());
}

}  // namespace baleen
