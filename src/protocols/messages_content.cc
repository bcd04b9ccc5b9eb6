#include "protocols/messages_content.h"

#include <set>

#include "protocols/conversation.h"
#include "protocols/requested_tools.h"
#include "protocols/text_content.h"

namespace baleen {
namespace {

/// Reads one message after the other.
class ConversationReader {
 public:
  explicit ConversationReader(ApiRequest& request)
      : messages_(request.messages), ignored_(request.ignored), profile_(request.prompt_profile) {}

  void read(const RequestFields& fields, bool is_last) {
    const std::string role = fields.required_text("role");
    const PythonJson* content = fields.find("content");
    if (content == nullptr || (content->as_string() == nullptr && content->as_array() == nullptr)) {
      return fields.expected("content", "a string or an array of content blocks");
    }
    if (role == "assistant") {
      read_assistant(fields, *content, is_last);
    } else if (role == "user") {
      read_user(fields, *content);
    } else if (role == "system" || role == "developer") {
      messages_.push_back({.role = Role::kSystem, .content = read_text_content(fields, "content", ignored_)});
    } else {
      fields.expected("role", "user or assistant");
    }
  }

 private:
  template <class Read>
  static void for_each_block(const RequestFields& fields, const PythonJson::Array& blocks, const Read& read) {
    for (std::size_t i = 0; i < blocks.size() && !fields.error(); ++i) {
      const RequestFields block(blocks[i], fields.path("content", i), fields.error());
      const std::string type = block.required_text("type");
      if (!fields.error()) read(block, type);
    }
  }

  void read_user(const RequestFields& fields, const PythonJson& content) {
    if (const std::string* text = content.as_string()) {
      messages_.push_back({.role = Role::kUser, .content = *text});
      return;
    }
    if (content.as_array()->empty()) return fields.refuse("content", "is an empty array");
    for_each_block(fields, *content.as_array(), [&](const RequestFields& block, const std::string& type) {
      if (is_result(type)) return read_result(block, type);
      messages_.push_back({.role = Role::kUser, .content = read_text_part(block, ignored_)});
    });
  }

  void read_assistant(const RequestFields& fields, const PythonJson& content, bool is_last) {
    messages_.push_back({.role = Role::kAssistant});
    if (const std::string* text = content.as_string()) {
      messages_.back().content = *text;
    } else {
      const std::set<std::string> answered = answered_here(*content.as_array());
      for_each_block(fields, *content.as_array(), [&](const RequestFields& block, const std::string& type) {
        read_assistant_block(block, type, answered);
      });
    }
    if (messages_.back().role == Role::kAssistant) messages_.back().wo_eos = is_last;
  }

  /// Ids of the calls that a provider's own tools answered within the message.
  static std::set<std::string> answered_here(const PythonJson::Array& blocks) {
    std::set<std::string> ids;
    for (const PythonJson& block : blocks) {
      const PythonJson *type = block.find("type"), *id = block.find("tool_use_id");
      if (type != nullptr && type->as_string() != nullptr && is_result(*type->as_string()) && id != nullptr &&
          id->as_string() != nullptr) {
        ids.insert(*id->as_string());
      }
    }
    return ids;
  }

  void read_assistant_block(const RequestFields& block, const std::string& type,
                            const std::set<std::string>& answered) {
    if (type == "thinking") {
      append_part(assistant().reasoning_content, block.required_text("thinking"));
      (void)block.text("signature");
    } else if (type == "redacted_thinking") {
      (void)block.text("data");
    } else if (type == "tool_use") {
      read_call(block);
    } else if (type.ends_with("_tool_use")) {
      // A provider ran it. The chat format has no place for a call that nothing answers.
      const std::string* id = block.text("id");
      if (id == nullptr || !answered.contains(*id)) return pass_over(block, type, ignored_);
      read_call(block);
    } else if (is_result(type)) {
      read_result(block, type);
    } else if (type == "text") {
      append_part(assistant().content, block.required_text("text"));
    } else if (std::optional<std::string> text = text_within(block, ignored_)) {
      append_part(assistant().content, *text);
    } else {
      pass_over(block, type, ignored_);
    }
  }

  /// The assistant's message that a block continues: a new one behind the results of a provider's own tools.
  Message& assistant() {
    if (messages_.back().role != Role::kAssistant) messages_.push_back({.role = Role::kAssistant});
    return messages_.back();
  }

  static bool is_result(const std::string& type) {
    return type == "tool_result" || type.ends_with("_tool_result");
  }

  void read_call(const RequestFields& block) {
    ToolCall& call = assistant().tool_calls.emplace_back();
    call.id = block.required_text("id");
    call.name = required_tool_name(block, profile_);
    call.arguments = history_arguments(block, "input");
  }

  void read_result(const RequestFields& block, const std::string& type) {
    const bool is_own = type == "tool_result";
    Message& message = messages_.emplace_back(Message{.role = Role::kTool});
    message.tool_call_id = block.required_text("tool_use_id");
    message.content =
        is_own ? read_text_content(block, "content", ignored_) : read_tool_output(block, "content", ignored_);
    // The format has no mark for a failed call, so its result says it.
    if (block.flag("is_error").value_or(false) && !message.content.starts_with("Error"))
      message.content.insert(0, "Error: ");
  }

  std::vector<Message>& messages_;
  std::vector<std::string>& ignored_;
  const PromptProfile& profile_;
};

}  // namespace

void read_messages_conversation(const RequestFields& fields, ApiRequest& request) {
  if (fields.has("system")) {
    request.messages.push_back(
        {.role = Role::kSystem, .content = read_text_content(fields, "system", request.ignored)});
  }
  const PythonJson::Array* list = fields.list("messages", kMaxMessages);
  if (list == nullptr) return fields.expected("messages", "an array");
  if (list->empty()) return fields.refuse("messages", "is empty; a conversation needs a message to reply to");
  ConversationReader reader(request);
  for (std::size_t i = 0; i < list->size() && !fields.error(); ++i) {
    reader.read(RequestFields((*list)[i], fields.path("messages", i), fields.error()), i + 1 == list->size());
  }
}

}  // namespace baleen
