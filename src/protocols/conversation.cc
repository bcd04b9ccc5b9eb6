#include "protocols/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "protocols/requested_format.h"

namespace baleen {
namespace {

bool is_user_side(const Message& message) {
  return message.role == Role::kUser || message.role == Role::kTool;
}

/// A lone system message, to which no profile has a reply.
void reply_to_lone_system(std::vector<Message>& messages) {
  if (messages.size() == 1 && messages.front().role == Role::kSystem) messages.front().role = Role::kUser;
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

/// Lines that clients write into system texts for their provider's accounts. They differ from request to
/// request, so no prefix of an earlier one would be found in the cache, and they say nothing to a model.
constexpr std::array<std::string_view, 1> kClientLines = {"x-anthropic-billing-header:"};

/// The name of the client's line that the text begins with; empty where it begins with none.
std::string_view client_line(std::string_view text) {
  const auto* const line =
      std::ranges::find_if(kClientLines, [&](std::string_view begin) { return text.starts_with(begin); });
  return line == kClientLines.end() ? std::string_view() : line->substr(0, line->size() - 1);
}

/// The text without such lines and what divided them from the next; notes the name of the first.
std::string without_client_lines(std::string_view text, std::vector<std::string>& ignored) {
  std::string kept;
  bool is_noted = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    if (const std::string_view name = client_line(text); name.empty()) {
      kept += text.substr(0, end);
      text.remove_prefix(end);
    } else {
      if (!std::exchange(is_noted, true)) ignored.emplace_back(name);
      text.remove_prefix(std::min(text.find_first_not_of("\r\n", end), text.size()));
    }
  }
  return kept;
}

void leave_out_client_lines(ApiRequest& request) {
  for (Message& message : request.messages) {
    if (message.role == Role::kSystem)
      message.content = without_client_lines(message.content, request.ignored);
  }
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
  leave_out_client_lines(request);
  if (prompt_rules(request.prompt_profile).system_token.empty()) {
    settle_system_messages(messages);
  } else {
    reply_to_lone_system(messages);
  }
  PythonJson format = format_in_prompt(request.response_format);
  if (tools.functions.empty() && format.is_null()) return;
  if (messages.front().role != Role::kSystem)
    messages.insert(messages.begin(), Message{.role = Role::kSystem});
  messages.front().tools = std::move(tools.functions);
  messages.front().response_format = std::move(format);
}

std::string history_arguments(const RequestFields& call, std::string_view name) {
  static constexpr std::string_view kNone = "{}";
  const auto is_none = [](const PythonJson& value) {
    return value.is_null() || (value.as_array() != nullptr && value.as_array()->empty());
  };
  const PythonJson* value = call.find(name);
  if (value == nullptr || is_none(*value)) return std::string(kNone);
  if (value->as_object() != nullptr) return dump_python_json(*value);
  const std::string* text = value->as_string();
  if (text == nullptr) return call.expected(name, "the JSON of an object"), "";
  if (text->find_first_not_of(" \t\r\n") == std::string::npos) return std::string(kNone);
  const Result<PythonJson> json = parse_python_json(*text);
  if (json && is_none(json.value())) return std::string(kNone);
  // Some clients encode what is encoded already.
  const std::string* inner = json ? json.value().as_string() : nullptr;
  if (const Result<PythonJson> again = parse_python_json(inner == nullptr ? "" : *inner);
      again && again.value().as_object() != nullptr)
    return *inner;
  if (json && json.value().as_object() == nullptr) {
    call.refuse(name, fmt::format("must be the JSON of an object, not of {}", json.value().kind()));
  }
  return *text;
}

}  // namespace baleen
