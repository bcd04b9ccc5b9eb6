#include "protocols/responses_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "protocols/conversation.h"
#include "protocols/sealed_text.h"
#include "protocols/text_content.h"
#include "protocols/tool_groups.h"

namespace baleen {
namespace {

/// Type of an item; empty for a message without one.
std::string_view type_of(const PythonJson& item) {
  const PythonJson* type = item.find("type");
  return type == nullptr || type->as_string() == nullptr ? std::string_view() : *type->as_string();
}

constexpr std::string_view kCall = "_call";

bool is_output(std::string_view type) { return type.ends_with("_output") || type.ends_with("_result"); }

/// What pairs a call and its output.
std::string_view call_id_of(const PythonJson& item) {
  for (const char* name : {"call_id", "id"}) {
    const PythonJson* id = item.find(name);
    if (id != nullptr && id->as_string() != nullptr) return *id->as_string();
  }
  return {};
}

/// Where a call that its provider ran has what came of it.
std::string_view own_output(const RequestFields& call) {
  for (const std::string_view name : {"output", "outputs", "results"}) {
    if (call.has(name)) return name;
  }
  return {};
}

class ItemReader {
 public:
  explicit ItemReader(ApiRequest& request)
      : messages_(request.messages),
        ignored_(request.ignored),
        client_key_(request.client_key),
        profile_(request.prompt_profile) {
    for (const ConversationTurn& turn : request.keeping.turns) note_outputs(*turn);
    note_outputs(request.keeping.input);
  }

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
      read_other(item, *type);
    }
  }

 private:
  void note_outputs(const PythonJson::Array& items) {
    for (const PythonJson& item : items) {
      if (is_output(type_of(item))) answered_.emplace(call_id_of(item));
    }
  }

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
      std::string text = required_text_content(item, "content", ignored_, Speaker::kModel);
      if (!assistant().content.empty() || !assistant().tool_calls.empty())
        messages_.push_back({.role = Role::kAssistant});
      assistant().content = std::move(text);
      return;
    }
    if (role == "tool") return read_tool_message(item);
    Message& message = messages_.emplace_back();
    if (role == "system" || role == "developer") {
      message.role = Role::kSystem;
    } else if (role != "user") {
      item.expected("role", "user, assistant, system, developer or tool");
    }
    message.content = required_text_content(item, "content", ignored_);
  }

  /// A result as chat completions has it.
  void read_tool_message(const RequestFields& item) {
    const std::string* id = item.text("tool_call_id");
    add_output(id != nullptr ? *id : std::string(call_id_of(item.value())),
               read_tool_output(item, "content", ignored_));
  }

  void read_reasoning(const RequestFields& item) {
    std::string text = sealed_reasoning(item);
    if (text.empty()) text = read_text_content(item, "content", ignored_, Speaker::kModel);
    if (text.empty()) text = read_text_content(item, "summary", ignored_, Speaker::kModel);
    const bool begun = !assistant().content.empty() || !assistant().tool_calls.empty();
    if (begun) messages_.push_back({.role = Role::kAssistant});
    append_part(assistant().reasoning_content, text);
  }

  /// What another provider sealed, or this server for another API key, stays in the client's conversation
  /// too: what cannot be verified is passed over.
  std::string sealed_reasoning(const RequestFields& item) {
    const std::string* sealed = item.text("encrypted_content");
    if (sealed == nullptr || sealed->empty()) return "";
    std::optional<std::string> text = open_sealed_text(*sealed, client_key_);
    if (!text) pass_over(item, "encrypted_content that cannot be verified", ignored_);
    return text.value_or("");
  }

  /// A call that a limit cut was never made, so it is no part of the conversation, unless a result of it is.
  void read_call(const RequestFields& item) {
    const std::string* status = item.text("status");
    if (status != nullptr && *status == "incomplete" && !answered_.contains(item.required_text("call_id")))
      return;
    add_call({.id = item.required_text("call_id"),
              .name = required_call_name(item, profile_),
              .arguments = history_arguments(item, "arguments")});
  }

  void add_call(ToolCall call) {
    if (!answered_.contains(call.id)) unanswered_[call.name] = call.id;
    assistant().tool_calls.push_back(std::move(call));
  }

  void read_output(const RequestFields& item) {
    if (item.value().find("output") == nullptr)  // null is a tool that returned nothing
      item.expected("output", "a string or an array of content parts");
    std::string text = read_tool_output(item, "output", ignored_);
    if (const std::string* id = item.text("call_id")) return add_output(*id, std::move(text));
    // Clients put in results that belong to no call of this conversation, and say what they are results of.
    const std::string name = kept_call_name(item, profile_);
    if (const auto call = unanswered_.find(name); call != unanswered_.end()) {
      add_output(call->second, std::move(text));
      unanswered_.erase(call);
    } else if (name.empty()) {
      add_output("", std::move(text));
    } else {
      messages_.push_back({.role = Role::kUser, .content = fmt::format("Result of {}:\n{}", name, text)});
    }
  }

  void add_output(std::string call_id, std::string text) {
    Message& message = messages_.emplace_back(Message{.role = Role::kTool});
    message.tool_call_id = std::move(call_id);
    message.content = std::move(text);
  }

  /// An item of a kind that this server does not have: of a tool that a provider runs, of a client's own, or
  /// newer than this code. It stays in the client's conversation for good, so refusing it would end that.
  /// Calls and outputs are shown as such, a text as one, and the rest is left out.
  void read_other(const RequestFields& item, const std::string& type) {
    pass_over(item, type, ignored_);
    if (is_output(type)) return add_output(std::string(call_id_of(item.value())), output_text(item));
    if (type.ends_with(kCall)) return read_other_call(item, type);
    std::optional<std::string> text = text_within(item, ignored_);
    if (!text || text->empty()) return;
    const std::string* role = item.text("role");
    const bool is_own = role != nullptr && *role == "assistant";
    if (is_own && !assistant().tool_calls.empty()) messages_.push_back({.role = Role::kAssistant});
    if (is_own) return append_part(assistant().content, *text);
    const bool is_system = role != nullptr && (*role == "system" || *role == "developer");
    messages_.push_back({.role = is_system ? Role::kSystem : Role::kUser, .content = *std::move(text)});
  }

  std::string output_text(const RequestFields& item) {
    if (const std::string_view name = own_output(item); !name.empty())
      return read_tool_output(item, name, ignored_);
    return readable_json(item.value());
  }

  void read_other_call(const RequestFields& item, const std::string& type) {
    const std::string id(call_id_of(item.value()));
    const std::string_view output = own_output(item);
    // The format has no place for a call that nothing answers.
    if (output.empty() && !answered_.contains(id)) return;
    std::string name = kept_call_name(item, profile_);
    if (name.empty()) name = plain_name(type.substr(0, type.size() - kCall.size()));
    add_call({.id = id, .name = std::move(name), .arguments = other_arguments(item)});
    if (!output.empty()) add_output(id, read_tool_output(item, output, ignored_));
  }

  /// What a call of another kind was made with: its `arguments`, its `input`, or whatever else it says.
  static std::string other_arguments(const RequestFields& item) {
    const PythonJson* arguments = item.find("arguments");
    if (arguments != nullptr && arguments->as_string() != nullptr) {
      const Result<PythonJson> json = parse_python_json(*arguments->as_string());
      if (json && json.value().as_object() != nullptr) return *arguments->as_string();
    }
    if (arguments != nullptr && arguments->as_object() != nullptr) return dump_python_json(*arguments);
    static constexpr std::array<std::string_view, 6> kNotArguments = {"name",   "namespace", "execution",
                                                                      "output", "outputs",   "results"};
    PythonJson::Object rest;
    for (const PythonJson::Member& member : item.members()) {
      if (std::ranges::find(kNotArguments, member.name) == kNotArguments.end()) rest.push_back(member);
    }
    return readable_json(rest);
  }

  std::vector<Message>& messages_;
  std::vector<std::string>& ignored_;
  std::string_view client_key_;
  const PromptProfile& profile_;
  std::unordered_set<std::string> answered_;                 ///< calls whose outputs the conversation has
  std::unordered_map<std::string, std::string> unanswered_;  ///< the latest other call of a name
};

/// Whether the item stands for one that the server keeps.
bool is_reference(const PythonJson& item) {
  const PythonJson* type = item.find("type");
  if (type == nullptr || type->is_null()) return item.find("id") != nullptr && item.find("role") == nullptr;
  return type->as_string() != nullptr && *type->as_string() == "item_reference";
}

void not_found(const RequestFields& fields, ApiError error) {
  error.message +=
      " Responses are kept for a while, unless \"store\" is false; send the conversation in input.";
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
  ItemReader reader(request);
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
