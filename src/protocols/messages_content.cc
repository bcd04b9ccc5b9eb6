#include "protocols/messages_content.h"

#include "protocols/conversation.h"
#include "protocols/text_content.h"

namespace baleen {
namespace {

/// The format has no mark for a failed call, so its result says it.
std::string tool_result(const RequestFields& block) {
  std::string text = read_text_content(block, "content", {"text"});
  if (block.flag("is_error").value_or(false) && !text.starts_with("Error")) text.insert(0, "Error: ");
  return text;
}

void read_user_block(const RequestFields& block, std::vector<Message>& messages) {
  const std::string type = block.required_text("type");
  if (type == "text") {
    messages.push_back({.role = Role::kUser, .content = block.required_text("text")});
  } else if (type == "tool_result") {
    Message& message = messages.emplace_back(Message{.role = Role::kTool});
    message.tool_call_id = block.required_text("tool_use_id");
    message.content = tool_result(block);
  } else {
    refuse_part(block, type, "text or tool_result");
  }
}

void read_assistant_block(const RequestFields& block, Message& message) {
  const std::string type = block.required_text("type");
  if (type == "text") {
    append_part(message.content, block.required_text("text"));
  } else if (type == "thinking") {
    append_part(message.reasoning_content, block.required_text("thinking"));
    (void)block.text("signature");
  } else if (type == "redacted_thinking") {
    (void)block.text("data");
  } else if (type == "tool_use") {
    ToolCall& call = message.tool_calls.emplace_back();
    call.id = block.required_text("id");
    call.name = block.required_name("name");
    if (block.object("input") == nullptr) return block.expected("input", "an object");
    call.arguments = dump_python_json(*block.find("input"));
  } else {
    refuse_part(block, type, "text, thinking or tool_use");
  }
}

void read_message(const RequestFields& fields, bool is_last, std::vector<Message>& messages) {
  const std::string role = fields.required_text("role");
  const PythonJson* content = fields.find("content");
  if (content == nullptr || (content->as_string() == nullptr && content->as_array() == nullptr)) {
    return fields.expected("content", "a string or an array of content blocks");
  }
  const PythonJson::Array* blocks = content->as_array();
  const auto for_each_block = [&](const auto& read) {
    for (std::size_t i = 0; i < blocks->size() && !fields.error(); ++i) {
      read(RequestFields((*blocks)[i], fields.path("content", i), fields.error()));
    }
  };
  if (role == "assistant") {
    Message& message = messages.emplace_back(Message{.role = Role::kAssistant, .wo_eos = is_last});
    if (blocks == nullptr) {
      message.content = *content->as_string();
    } else {
      for_each_block([&](const RequestFields& block) { read_assistant_block(block, message); });
    }
  } else if (role == "user") {
    if (blocks == nullptr) {
      messages.push_back({.role = Role::kUser, .content = *content->as_string()});
    } else if (blocks->empty()) {
      fields.refuse("content", "is an empty array");
    } else {
      for_each_block([&](const RequestFields& block) { read_user_block(block, messages); });
    }
  } else if (role == "system") {
    messages.push_back({.role = Role::kSystem, .content = read_text_content(fields, "content", {"text"})});
  } else {
    fields.expected("role", "user or assistant");
  }
}

}  // namespace

void read_messages_conversation(const RequestFields& fields, std::vector<Message>& messages) {
  if (fields.has("system")) {
    messages.push_back({.role = Role::kSystem, .content = read_text_content(fields, "system", {"text"})});
  }
  const PythonJson::Array* list = fields.list("messages", kMaxMessages);
  if (list == nullptr) return fields.expected("messages", "an array");
  if (list->empty()) return fields.refuse("messages", "is empty; a conversation needs a message to reply to");
  for (std::size_t i = 0; i < list->size() && !fields.error(); ++i) {
    read_message(RequestFields((*list)[i], fields.path("messages", i), fields.error()), i + 1 == list->size(),
                 messages);
  }
}

}  // namespace baleen
