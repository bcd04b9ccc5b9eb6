#include "protocols/chat_messages.h"

#include "protocols/conversation.h"
#include "protocols/requested_tools.h"
#include "protocols/text_content.h"

namespace baleen {
namespace {

/// Reads one message after the other.
class ChatMessageReader {
 public:
  explicit ChatMessageReader(ApiRequest& request) : request_(request) {}

  void read(const RequestFields& fields) {
    Message message;
    const std::string role = fields.required_text("role");
    if (role == "assistant") {
      message.role = Role::kAssistant;
      read_assistant(fields, message);
    } else {
      message.role = role_named(role, fields);
      const bool is_tool = message.role == Role::kTool;
      if (is_tool) message.tool_call_id = answered_call(fields, role);
      // A tool that returned nothing.
      const bool is_null = is_tool && fields.value().find("content") != nullptr && !fields.has("content");
      if (!is_null) message.content = required_text_content(fields, "content", request_.ignored);
    }
    request_.messages.push_back(std::move(message));
  }

 private:
  static Role role_named(const std::string& role, const RequestFields& fields) {
    if (role == "system" || role == "developer") return Role::kSystem;
    if (role == "user") return Role::kUser;
    if (role == "tool" || role == "function") return Role::kTool;
    if (role == "latest_reminder") return Role::kLatestReminder;
    fields.expected("role", "system, developer, user, assistant or tool");
    return Role::kUser;
  }

  /// The older form has no ids: the result of a function answers the call before it.
  static std::string answered_call(const RequestFields& fields, const std::string& role) {
    if (role == "function") (void)fields.required_name("name");
    const std::string* id = role == "tool" ? fields.text("tool_call_id") : nullptr;
    return id == nullptr ? "" : *id;
  }

  void read_assistant(const RequestFields& fields, Message& message) {
    message.content = read_text_content(fields, "content", request_.ignored, Speaker::kModel);
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

  void read_tool_calls(const RequestFields& fields, Message& message) const {
    if (const auto call = fields.fields("function_call")) {
      message.tool_calls.push_back({.id = "",
                                    .name = required_tool_name(*call, request_.prompt_profile),
                                    .arguments = history_arguments(*call, "arguments")});
    }
    const PythonJson::Array* calls = fields.list("tool_calls", kMaxTools);
    for (std::size_t i = 0; calls != nullptr && i < calls->size() && !fields.error(); ++i) {
      const RequestFields call((*calls)[i], fields.path("tool_calls", i), fields.error());
      const std::string* type = call.text("type");
      const std::string* id = call.text("id");
      // A tool whose calls are free text has it as `input`.
      const bool is_custom = type != nullptr && *type == "custom";
      if (type != nullptr && *type != "function" && !is_custom)
        return call.expected("type", "\"function\" or \"custom\"");
      const auto function = call.fields(is_custom ? "custom" : "function");
      if (!function)
        return call.expected(is_custom ? "custom" : "function", "an object with name and arguments");
      message.tool_calls.push_back(
          {.id = id == nullptr ? "" : *id,
           .name = required_tool_name(*function, request_.prompt_profile, call.find("namespace")),
           .arguments =
               is_custom ? dump_python_json(PythonJson::Object{{"input", function->required_text("input")}})
                         : history_arguments(*function, "arguments")});
    }
  }

  ApiRequest& request_;
};

}  // namespace

void read_chat_messages(const RequestFields& fields, ApiRequest& request) {
  const PythonJson::Array* list = fields.list("messages", kMaxMessages);
  if (list == nullptr) return fields.expected("messages", "an array");
  request.messages.reserve(list->size());
  ChatMessageReader reader(request);
  for (std::size_t i = 0; i < list->size() && !fields.error(); ++i) {
    const RequestFields message((*list)[i], fields.path("messages", i), fields.error());
    reader.read(message);
    if (request.messages.back().wo_eos && i + 1 != list->size()) {
      message.refuse("prefix", "only the last message can be continued");
    }
  }
}

}  // namespace baleen
