#include "protocols/responses_input.h"

#include "protocols/conversation.h"
#include "protocols/text_content.h"

namespace baleen {
namespace {

class ItemReader {
 public:
  explicit ItemReader(std::vector<Message>& messages) : messages_(messages) {}

  void read(const RequestFields& item) {
    const std::string* type = item.text("type");
    if (item.error()) return;
    if (type == nullptr || *type == "message") {
      read_message(item);
    } else if (*type == "reasoning") {
      read_reasoning(item);
    } else if (*type == "function_call") {
      read_call(item);
    } else if (*type == "function_call_output") {
      read_output(item);
    } else if (*type == "item_reference") {
      item.refuse("type", "\"item_reference\": this server keeps no items; send the item itself");
    } else {
      item.expected("type", "message, reasoning, function_call or function_call_output");
    }
  }

 private:
  /// The assistant message that an item continues; a new one when the last is not an assistant's.
  Message& assistant() {
    if (messages_.empty() || messages_.back().role != Role::kAssistant) {
      messages_.push_back({.role = Role::kAssistant});
    }
    return messages_.back();
  }

  void read_message(const RequestFields& item) {
    const std::string role = item.required_text("role");
    if (role == "assistant") {
      std::string text = required_text_content(item, "content", {"output_text", "input_text", "text"});
      if (!assistant().content.empty() || !assistant().tool_calls.empty())
        messages_.push_back({.role = Role::kAssistant});
      assistant().content = std::move(text);
      return;
    }
    Message& message = messages_.emplace_back();
    if (role == "system" || role == "developer") {
      message.role = Role::kSystem;
    } else if (role != "user") {
      item.expected("role", "user, assistant, system or developer");
    }
    message.content = required_text_content(item, "content", {"input_text", "output_text", "text"});
  }

  void read_reasoning(const RequestFields& item) {
    std::string text = read_text_content(item, "content", {"reasoning_text", "text"});
    if (text.empty()) text = read_text_content(item, "summary", {"summary_text"});
    const bool begun = !assistant().content.empty() || !assistant().tool_calls.empty();
    if (begun) messages_.push_back({.role = Role::kAssistant});
    append_part(assistant().reasoning_content, text);
  }

  void read_call(const RequestFields& item) {
    ToolCall call{.id = item.required_text("call_id"),
                  .name = item.required_name("name"),
                  .arguments = history_arguments(item, "arguments")};
    assistant().tool_calls.push_back(std::move(call));
  }

  void read_output(const RequestFields& item) {
    Message& message = messages_.emplace_back(Message{.role = Role::kTool});
    message.tool_call_id = item.required_text("call_id");
    message.content = required_text_content(item, "output", {"input_text", "output_text", "text"});
  }

  std::vector<Message>& messages_;
};

}  // namespace

void read_responses_input(const RequestFields& fields, std::vector<Message>& messages) {
  const PythonJson* input = fields.find("input");
  if (input != nullptr && input->as_string() != nullptr) {
    messages.push_back({.role = Role::kUser, .content = *input->as_string()});
    return;
  }
  if (input == nullptr || input->as_array() == nullptr)
    return fields.expected("input", "a string or an array of items");
  const PythonJson::Array* list = fields.list("input", kMaxMessages);
  if (list != nullptr && list->empty())
    return fields.refuse("input", "is empty; there is nothing to reply to");
  ItemReader reader(messages);
  for (std::size_t i = 0; list != nullptr && i < list->size() && !fields.error(); ++i) {
    reader.read(RequestFields((*list)[i], fields.path("input", i), fields.error()));
  }
}

}  // namespace baleen
