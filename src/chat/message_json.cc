#include "chat/message_json.h"

#include <optional>
#include <utility>

#include "chat/format.h"
#include "chat/tool_namespace.h"

namespace baleen {
namespace {

/// What a missing or null string field means.
enum class Absent { kEmpty, kEmptyButNotNull, kError };

/// Reads the fields of one object; the first failure sticks in the variable that all readers of a message
/// share.
class Fields {
 public:
  Fields(const PythonJson& object, std::string where, std::optional<Failure>& failed)
      : object_(object), where_(std::move(where)), failed_(failed) {
    if (object.as_object() == nullptr) wrong(where_, "an object", &object);
  }

  std::string text(std::string_view name, Absent absent) {
    const PythonJson* value = object_.find(name);
    if (value != nullptr && value->as_string() != nullptr) return *value->as_string();
    const bool may_miss =
        value == nullptr ? absent != Absent::kError : value->is_null() && absent == Absent::kEmpty;
    if (!may_miss) wrong(path(name), "a string", value);
    return "";
  }

  bool flag(std::string_view name) {
    const PythonJson* value = present(name);
    if (value == nullptr) return false;
    if (value->as_bool() == nullptr) return wrong(path(name), "true or false", value), false;
    return *value->as_bool();
  }

  const PythonJson::Array& list(std::string_view name) {
    static const PythonJson::Array kNone;
    const PythonJson* value = present(name);
    if (value == nullptr) return kNone;
    if (value->as_array() == nullptr) return wrong(path(name), "an array", value), kNone;
    return *value->as_array();
  }

  /// Must be there; the null value after a failure.
  const PythonJson& object(std::string_view name) {
    static const PythonJson kNull;
    const PythonJson* value = object_.find(name);
    if (value != nullptr && value->as_object() != nullptr) return *value;
    wrong(path(name), "an object", value);
    return kNull;
  }

  /// nullptr when absent or null.
  [[nodiscard]] const PythonJson* present(std::string_view name) const {
    const PythonJson* value = object_.find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  [[nodiscard]] std::string path(std::string_view name) const { return fmt::format("{}.{}", where_, name); }

  void wrong(std::string_view where, std::string_view expected, const PythonJson* found) {
    reject(
        failure("{}: expected {}, found {}", where, expected, found == nullptr ? "nothing" : found->kind()));
  }

  void reject(Failure failed) {
    if (!failed_) failed_ = std::move(failed);
  }

 private:
  const PythonJson& object_;
  std::string where_;
  std::optional<Failure>& failed_;
};

Absent content_when_absent(Role role) {
  switch (role) {
    case Role::kUser:
    case Role::kTool:
      return Absent::kEmptyButNotNull;
    case Role::kLatestReminder:
      return Absent::kError;
    default:
      return Absent::kEmpty;
  }
}

std::optional<Task> read_task(Fields& fields) {
  if (fields.present("task") == nullptr) return std::nullopt;
  const std::string name = fields.text("task", Absent::kError);
  for (const auto& task : chat_format::kTasks) {
    if (task.name == name) return task.task;
  }
  fields.reject(failure("{}: expected action, query, authority, domain, title or read_url, found {}",
                        fields.path("task"), quote_python_json(name)));
  return std::nullopt;
}

std::string read_content(Fields& fields, const PythonJson& object, Role role, const PromptRules& rules) {
  const PythonJson* content = object.find("content");
  const bool may_be_list = role == Role::kTool || rules.has_images;
  if (!may_be_list || content == nullptr || content->as_array() == nullptr) {
    return fields.text("content", content_when_absent(role));
  }
  Result<std::string> text = flatten_content_parts(*content, fields.path("content"), rules.has_images);
  if (text) return std::move(text).value();
  fields.reject(Failure{text.error()});
  return "";
}

std::string read_arguments(Fields& function, const PromptRules& rules) {
  const PythonJson* value = function.present("arguments");
  const bool is_object = value != nullptr && value->as_object() != nullptr;
  return is_object && rules.takes_any_arguments ? dump_python_json(*value)
                                                : function.text("arguments", Absent::kError);
}

/// The name in `function`, with the namespace that it or the call around it has.
std::string read_call_name(const Fields& call, Fields& function, const PromptRules& rules) {
  std::string name = function.text("name", Absent::kError);
  if (!rules.has_namespaces || name.empty()) return name;
  const PythonJson* around = call.present("namespace");
  Result<std::string> qualified =
      qualified_tool_name(name, around == nullptr ? function.present("namespace") : around);
  if (qualified) return std::move(qualified).value();
  function.reject(failure("{}: {}", function.path("name"), qualified.error()));
  return name;
}

PythonJson read_tool(const PythonJson& tool, const std::string& where, const PromptRules& rules,
                     std::optional<Failure>& failed) {
  Fields fields(tool, where, failed);
  const PythonJson& function = fields.object("function");
  if (!rules.has_namespaces || failed) return function;
  Result<PythonJson> qualified = qualified_function(function, fields.present("namespace"));
  if (!qualified) fields.reject(failure("{}.name: {}", fields.path("function"), qualified.error()));
  return qualified ? std::move(qualified).value() : function;
}

ToolCall read_tool_call(const PythonJson& object, const std::string& where, const PromptRules& rules,
                        std::optional<Failure>& failed) {
  Fields fields(object, where, failed);
  Fields function(fields.object("function"), fields.path("function"), failed);
  ToolCall call;
  call.id = fields.text("id", Absent::kEmpty);
  if (call.id.empty()) call.id = function.text("id", Absent::kEmpty);
  call.name = read_call_name(fields, function, rules);
  call.arguments = read_arguments(function, rules);
  return call;
}

Message read_message(const PythonJson& object, const std::string& where, const PromptRules& rules,
                     std::optional<Failure>& failed) {
  Fields fields(object, where, failed);
  Message message;
  message.unknown_role = fields.text("role", Absent::kError);
  message.role = Role::kUnknown;
  for (const auto& [role, name] : chat_format::kRoles) {
    if (message.unknown_role == name) {
      message.role = role;
      message.unknown_role.clear();
    }
  }
  message.content = read_content(fields, object, message.role, rules);
  message.reasoning_content = fields.text("reasoning_content", Absent::kEmpty);
  message.tool_call_id = fields.text("tool_call_id", Absent::kEmpty);
  message.task = read_task(fields);
  message.wo_eos = fields.flag("wo_eos");
  if (fields.present("response_format") != nullptr)
    message.response_format = fields.object("response_format");
  for (const PythonJson& call : fields.list("tool_calls")) {
    const std::string place = fmt::format("{}[{}]", fields.path("tool_calls"), message.tool_calls.size());
    message.tool_calls.push_back(read_tool_call(call, place, rules, failed));
  }
  for (const PythonJson& tool : fields.list("tools")) {
    const std::string place = fmt::format("{}[{}]", fields.path("tools"), message.tools.size());
    message.tools.push_back(read_tool(tool, place, rules, failed));
  }
  return message;
}

PythonJson tool_call_to_json(const ToolCall& call) {
  PythonJson::Object object;
  if (!call.id.empty()) object.push_back({"id", call.id});
  object.push_back({"type", "function"});
  object.push_back({"function", PythonJson::Object{{"name", call.name}, {"arguments", call.arguments}}});
  return object;
}

Failure not_one_of(std::string_view field, std::string_view choices, const PythonJson& value) {
  const std::string* name = value.as_string();
  return failure("{}: expected {}, found {}", field, choices,
                 name != nullptr ? quote_python_json(*name) : std::string(value.kind()));
}

}  // namespace

Result<std::vector<Message>> messages_from_json(const PythonJson& messages, std::string_view where,
                                                const PromptRules& rules) {
  const PythonJson::Array* list = messages.as_array();
  if (list == nullptr) return failure("{}: expected an array, found {}", where, messages.kind());
  std::vector<Message> result;
  result.reserve(list->size());
  std::optional<Failure> failed;
  for (const PythonJson& message : *list) {
    result.push_back(read_message(message, fmt::format("{}[{}]", where, result.size()), rules, failed));
    if (failed) return *std::move(failed);
  }
  return result;
}

PythonJson message_to_json(const Message& message) {
  PythonJson::Object object;
  const auto add_text = [&object](std::string_view name, const std::string& text, bool always) {
    if (always || !text.empty()) object.push_back({std::string(name), text});
  };
  const bool assistant = message.role == Role::kAssistant;
  object.push_back({"role", std::string(role_name(message))});
  add_text("content", message.content, true);
  add_text("reasoning_content", message.reasoning_content, assistant);
  if (assistant || !message.tool_calls.empty()) {
    PythonJson::Array calls;
    for (const ToolCall& call : message.tool_calls) calls.push_back(tool_call_to_json(call));
    object.push_back({"tool_calls", std::move(calls)});
  }
  add_text("tool_call_id", message.tool_call_id, false);
  if (!message.tools.empty()) {
    PythonJson::Array tools;
    for (const PythonJson& function : message.tools) {
      tools.emplace_back(PythonJson::Object{{"type", "function"}, {"function", function}});
    }
    object.push_back({"tools", std::move(tools)});
  }
  if (!message.response_format.is_null()) object.push_back({"response_format", message.response_format});
  for (const auto& task : chat_format::kTasks) {
    if (message.task == task.task) object.push_back({"task", std::string(task.name)});
  }
  if (message.wo_eos) object.push_back({"wo_eos", PythonJson(true)});
  return object;
}

bool is_image_type(std::string_view type) {
  return type == "image" || type == "image_url" || type == "input_image" || type == "image_pil";
}

Result<std::string> flatten_content_parts(const PythonJson& parts, std::string_view where,
                                          bool refuses_images) {
  const PythonJson::Array* list = parts.as_array();
  if (list == nullptr)
    return failure("{}: expected an array of content parts, found {}", where, parts.kind());
  std::string result;
  std::optional<Failure> failed;
  for (std::size_t i = 0; i < list->size(); ++i) {
    Fields part((*list)[i], fmt::format("{}[{}]", where, i), failed);
    const std::string type = part.text("type", Absent::kError);
    if (refuses_images && is_image_type(type)) return failure("{}[{}]: {}", where, i, kNoImages);
    if (i > 0) result += "\n\n";
    result +=
        type == "text" ? part.text("text", Absent::kEmptyButNotNull) : fmt::format("[Unsupported {}]", type);
    if (failed) return *std::move(failed);
  }
  return result;
}

Result<ThinkingMode> thinking_mode_from_json(const PythonJson& value) {
  const std::string* name = value.as_string();
  if (name != nullptr && *name == "chat") return ThinkingMode::kChat;
  if (name != nullptr && *name == "thinking") return ThinkingMode::kThinking;
  return not_one_of("thinking_mode", "\"chat\" or \"thinking\"", value);
}

Result<std::string> reasoning_effort_from_json(const PythonJson& value) {
  if (value.is_null()) return std::string();
  if (const PythonJson::Number* number = value.as_number()) {
    const bool is_whole = number->text.find_first_not_of("-0123456789") == std::string::npos;
    if (is_whole) return number->text;
  }
  if (value.as_string() == nullptr)
    return failure("reasoning_effort: expected null, a string or a whole number, found {}", value.kind());
  return *value.as_string();
}

}  // namespace baleen
