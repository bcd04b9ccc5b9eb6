#include "protocols/conversation.h"

#include <fmt/format.h>

#include "protocols/requested_format.h"

namespace baleen {
namespace {

bool is_user_side(const Message& message) {
  return message.role == Role::kUser || message.role == Role::kTool;
}

void settle_system_messages(std::vector<Message>& messages) {
  std::vector<Message> settled;
  settled.reserve(messages.size() + 1);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Message& message = messages[i];
    if (message.role == Role::kSystem) {
      const bool is_last = i + 1 == messages.size();
      if (is_last || (!settled.empty() && is_user_side(settled.back()))) message.role = Role::kUser;
    }
    if (message.role == Role::kSystem && !settled.empty() && settled.back().role == Role::kSystem) {
      append_part(settled.back().content, message.content);
    } else {
      settled.push_back(std::move(message));
    }
  }
  messages = std::move(settled);
}

}  // namespace

void append_part(std::string& whole, std::string_view text) {
  if (!whole.empty() && !text.empty()) whole += "\n\n";
  whole += text;
}

void arrange_conversation(const RequestFields& fields, std::string_view field, RequestedTools tools,
                          ApiRequest& request) {
  std::vector<Message>& messages = request.messages;
  if (messages.empty()) return fields.refuse(field, "is empty; a conversation needs a message to reply to");
  const Message& last = messages.back();
  if (last.role == Role::kAssistant && !last.wo_eos) {
    return fields.refuse(
        field,
        "ends with an assistant message; add a user message, or set \"prefix\": true in it to continue it");
  }
  if (last.role == Role::kAssistant && !last.tool_calls.empty()) {
    return fields.refuse(field, "ends with tool calls; add their results");
  }
  settle_system_messages(messages);
  PythonJson format = format_in_prompt(request.response_format);
  if (tools.functions.empty() && format.is_null()) return;
  if (messages.front().role != Role::kSystem)
    messages.insert(messages.begin(), Message{.role = Role::kSystem});
  messages.front().tools = std::move(tools.functions);
  messages.front().response_format = std::move(format);
}

std::string history_arguments(const RequestFields& call, std::string_view name) {
  std::string arguments = call.required_text(name);
  if (arguments.find_first_not_of(" \t\r\n") == std::string::npos) return "{}";
  const Result<PythonJson> json = parse_python_json(arguments);
  if (json && json.value().as_object() == nullptr) {
    call.refuse(name, fmt::format("must be the JSON of an object, not of {}", json.value().kind()));
  }
  return arguments;
}

}  // namespace baleen
