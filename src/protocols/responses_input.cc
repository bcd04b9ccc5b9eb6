#include "protocols/responses_input.h"

#include <fmt/format.h>

#include "protocols/conversation.h"
#include "protocols/sealed_text.h"
#include "protocols/text_content.h"

namespace baleen {
namespace {

class ItemReader {
 public:
  ItemReader(std::vector<Message>& messages, std::string_view client_key)
      : messages_(messages), client_key_(client_key) {}

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
    std::string text = sealed_reasoning(item);
    if (text.empty()) text = read_text_content(item, "content", {"reasoning_text", "text"});
    if (text.empty()) text = read_text_content(item, "summary", {"summary_text"});
    const bool begun = !assistant().content.empty() || !assistant().tool_calls.empty();
    if (begun) messages_.push_back({.role = Role::kAssistant});
    append_part(assistant().reasoning_content, text);
  }

  std::string sealed_reasoning(const RequestFields& item) const {
    const std::string* sealed = item.text("encrypted_content");
    if (sealed == nullptr || sealed->empty()) return "";
    std::optional<std::string> text = open_sealed_text(*sealed, client_key_);
    if (!text) {
      item.refuse("encrypted_content",
                  "could not be verified: it is damaged, or was sealed for another API key; leave the item out");
      item.error()->code = "invalid_encrypted_content";
    }
    return text.value_or("");
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
  std::string_view client_key_;
};

/// Whether the item stands for one that the server keeps.
bool is_reference(const PythonJson& item) {
  const PythonJson* type = item.find("type");
  if (type == nullptr || type->is_null()) return item.find("id") != nullptr && item.find("role") == nullptr;
  return type->as_string() != nullptr && *type->as_string() == "item_reference";
}

void not_found(const RequestFields& fields, ApiError error) {
  error.message += " Responses are kept for a while, unless \"store\" is false; send the conversation in input.";
  if (!fields.error()) fields.error() = std::move(error);
}

/// The item, or the kept one that it refers to.
PythonJson resolved(const RequestFields& item, const PythonJson& value, const ApiContext& context) {
  if (!is_reference(value)) return value;
  const std::string id = item.required_text("id");
  std::optional<PythonJson> kept = context.earlier == nullptr ? std::nullopt : context.earlier->item(id);
  if (kept) return *std::move(kept);
  not_found(item, {.status = 404,
                   .param = "input",
                   .message = fmt::format("{}: Item with id {} not found.", item.path(), describe(id))});
  return value;
}

void read_previous(const RequestFields& fields, const ApiContext& context, ResponseKeeping& keeping) {
  const std::string* id = fields.text("previous_response_id");
  if (id == nullptr) return;
  std::optional<std::vector<ConversationTurn>> turns;
  if (context.earlier != nullptr) turns = context.earlier->conversation(*id);
  if (turns) {
    keeping.turns = *std::move(turns);
  } else {
    not_found(fields, {.code = "previous_response_not_found",
                       .param = "previous_response_id",
                       .message = fmt::format("previous_response_id: Previous response with id {} not found.",
                                              describe(*id))});
  }
}

PythonJson user_message(const std::string& text) {
  return PythonJson::Object{{"type", "message"}, {"role", "user"}, {"content", text}};
}

void read_input(const RequestFields& fields, const ApiContext& context, PythonJson::Array& items) {
  const PythonJson* input = fields.find("input");
  if (input != nullptr && input->as_string() != nullptr) {
    items.push_back(user_message(*input->as_string()));
    return;
  }
  if (input == nullptr || input->as_array() == nullptr)
    return fields.expected("input", "a string or an array of items");
  const PythonJson::Array* list = fields.list("input", kMaxMessages);
  for (std::size_t i = 0; list != nullptr && i < list->size() && !fields.error(); ++i) {
    const RequestFields item((*list)[i], fields.path("input", i), fields.error());
    if (!fields.error()) items.push_back(resolved(item, (*list)[i], context));
  }
}

}  // namespace

void read_responses_input(const RequestFields& fields, const ApiContext& context, ApiRequest& request) {
  ResponseKeeping& keeping = request.keeping;
  read_previous(fields, context, keeping);
  read_input(fields, context, keeping.input);
  if (fields.error()) return;
  if (keeping.input.empty() && keeping.turns.empty()) {
    return fields.refuse("input", "is empty; there is nothing to reply to");
  }
  ItemReader reader(request.messages, request.client_key);
  for (const ConversationTurn& turn : keeping.turns) {
    for (std::size_t i = 0; i < turn->size() && !fields.error(); ++i) {
      reader.read(RequestFields((*turn)[i], "previous_response_id", fields.error()));
    }
  }
  for (std::size_t i = 0; i < keeping.input.size() && !fields.error(); ++i) {
    reader.read(RequestFields(keeping.input[i], fields.path("input", i), fields.error()));
  }
}

}  // namespace baleen
