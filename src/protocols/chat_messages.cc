#include "protocols/chat_messages.h"

#include "protocols/conversation.h"
#include "protocols/text_content.h"

namespace baleen {
namespace {

void read_tool_calls(const RequestFields& fields, Message& message) {
  fields.refuse_if_present("function_call", "is the older form; send tool_calls");
  const PythonJson::Array* calls = fields.list("tool_calls", kMaxTools);
  for (std::size_t i = 0; calls != nullptr && i < calls->size() && !fields.error(); ++i) {
    const RequestFields call((*calls)[i], fields.path("tool_calls", i), fields.error());
    const std::string* type = call.text("type");
    if (type != nullptr && *type != "function") return call.expected("type", "\"function\"");
    const std::string* id = call.text("id");
    const auto function = call.fields("function");
    if (!function) return call.expected("function", "an object with name and arguments");
    message.tool_calls.push_back({.id = id == nullptr ? "" : *id,
                                  .name = function->required_name("name"),
                                  .arguments = history_arguments(*function, "arguments")});
  }
}

void read_assistant(const RequestFields& fields, Message& message) {
  message.content = read_text_content(fields, "content", {"text"});
  if (message.content.empty()) {
    if (const std::string* refusal = fields.text("refusal")) message.content = *refusal;
  }
  for (const char* name : {"reasoning_content", "reasoning"}) {
    const std::string* reasoning = fields.text(name);
    if (reasoning != nullptr && message.reasoning_content.empty()) message.reasoning_content = *reasoning;
  }
  message.wo_eos = fields.flag("prefix").value_or(false);
  read_tool_calls(fields, message);
}

Message read_message(const RequestFields& fields) {
  Message message;
  const std::string role = fields.required_text("role");
  if (role == "assistant") {
    message.role = Role::kAssistant;
    read_assistant(fields, message);
    return message;
  }
  if (role == "system" || role == "developer") {
    message.role = Role::kSystem;
  } else if (role == "user") {
    message.role = Role::kUser;
  } else if (role == "tool") {
    message.role = Role::kTool;
    const std::string* id = fields.text("tool_call_id");
    if (id != nullptr) message.tool_call_id = *id;
  } else if (role == "latest_reminder") {
    message.role = Role::kLatestReminder;
  } else if (role == "function") {
    fields.refuse("role", "\"function\" is the older form; send role \"tool\" with a tool_call_id");
  } else {
    fields.expected("role", "system, developer, user, assistant or tool");
  }
  message.content = required_text_content(fields, "content", {"text"});
  return message;
}

}  // namespace

void read_chat_messages(const RequestFields& fields, std::vector<Message>& messages) {
  const PythonJson::Array* list = fields.list("messages", kMaxMessages);
  if (list == nullptr) return fields.expected("messages", "an array");
  messages.reserve(list->size());
  for (std::size_t i = 0; i < list->size() && !fields.error(); ++i) {
    const RequestFields message((*list)[i], fields.path("messages", i), fields.error());
    messages.push_back(read_message(message));
    if (messages.back().wo_eos && i + 1 != list->size()) {
      message.refuse("prefix", "only the last message can be continued");
    }
  }
}

}  // namespace baleen
