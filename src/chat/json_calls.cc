#include "chat/json_calls.h"

#include <algorithm>
#include <span>
#include <utility>

#include "chat/json_repair.h"

namespace baleen {
namespace {

constexpr std::string_view kNames[] = {"name",          "tool",           "tool_name", "function",
                                       "function_name", "recipient_name", "action"};
constexpr std::string_view kArguments[] = {"arguments", "input",      "parameters", "params",      "args",
                                           "kwargs",    "tool_input", "tool_args",  "action_input"};
constexpr std::string_view kBeside[] = {"id", "type", "index", "call_id", "tool_call_id"};
constexpr std::string_view kLists[] = {"tool_calls", "function_calls", "tool_uses", "calls"};
constexpr std::string_view kWrappers[] = {"function", "tool_call", "function_call"};

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

std::optional<PythonJson::Object> object_in(const PythonJson& value) {
  if (const PythonJson::Object* members = value.as_object()) return *members;
  if (value.as_string() == nullptr) return std::nullopt;
  const std::vector<PythonJson> inner = json_readings(*value.as_string());
  if (inner.size() != 1 || inner.front().as_object() == nullptr) return std::nullopt;
  return *inner.front().as_object();
}

/// One call after another, each in its own `<tool_call>`: as lines.
std::string without_tags_between(std::string_view text) {
  static constexpr std::string_view kOpening = "<tool_call>", kClosing = "</tool_call>";
  std::string lines;
  for (std::size_t at = text.find(kClosing); at != std::string_view::npos; at = text.find(kClosing)) {
    lines += text.substr(0, at);
    lines += '\n';
    text.remove_prefix(at + kClosing.size());
    const std::size_t next = std::min(text.find_first_not_of(" \n"), text.size());
    if (text.substr(next).starts_with(kOpening)) text.remove_prefix(next + kOpening.size());
  }
  lines += text;
  return lines;
}

std::optional<std::vector<JsonCall>> calls_in(const PythonJson& value) {
  const PythonJson* list = value.as_array() != nullptr ? &value : nullptr;
  if (const PythonJson::Object* members = value.as_object(); members != nullptr && members->size() == 1) {
    if (is_one_of(members->front().name, kLists) && members->front().value.as_array() != nullptr)
      list = &members->front().value;
  }
  std::vector<JsonCall> calls;
  const PythonJson::Array one{value};
  for (const PythonJson& element : list != nullptr ? *list->as_array() : one) {
    std::optional<JsonCall> call = json_call(element);
    if (!call) return std::nullopt;
    calls.push_back(*std::move(call));
  }
  return calls.empty() ? std::nullopt : std::optional(std::move(calls));
}

}  // namespace

std::optional<JsonCall> json_call(const PythonJson& value) {
  if (value.as_object() == nullptr) return std::nullopt;
  const PythonJson *name = nullptr, *arguments = nullptr, *wrapped = nullptr;
  for (const auto& [key, member] : *value.as_object()) {
    if (is_one_of(key, kWrappers) && member.as_object() != nullptr) {
      if (std::exchange(wrapped, &member) != nullptr) return std::nullopt;
    } else if (is_one_of(key, kNames) && member.as_string() != nullptr) {
      if (std::exchange(name, &member) != nullptr) return std::nullopt;
    } else if (is_one_of(key, kArguments)) {
      if (std::exchange(arguments, &member) != nullptr) return std::nullopt;
    } else if (!is_one_of(key, kBeside)) {
      return std::nullopt;
    }
  }
  if (wrapped != nullptr) return name == nullptr && arguments == nullptr ? json_call(*wrapped) : std::nullopt;
  if (name == nullptr) return std::nullopt;
  if (arguments == nullptr) return JsonCall{*name->as_string(), {}};
  std::optional<PythonJson::Object> members = object_in(*arguments);
  if (!members) return std::nullopt;
  return JsonCall{*name->as_string(), *std::move(members)};
}

std::vector<std::vector<JsonCall>> json_calls(std::string_view text) {
  const std::string joined = without_tags_between(text);
  const std::string_view bare = without_code_fence(joined);
  std::vector<std::vector<JsonCall>> meanings;
  if (bare.empty() || std::string_view("{[\"").find(bare.front()) == std::string_view::npos) return meanings;
  std::vector<PythonJson> readings = json_readings(bare);
  if (readings.empty()) readings = json_readings("[" + std::string(bare) + "]");  // one after another
  for (const PythonJson& reading : readings) {
    if (std::optional<std::vector<JsonCall>> calls = calls_in(reading)) meanings.push_back(*std::move(calls));
  }
  return meanings;
}

std::optional<PythonJson::Object> wrapped_arguments(const PythonJson& value) {
  const PythonJson::Object* members = value.as_object();
  if (members == nullptr || members->size() != 1 || !wraps_arguments(members->front().name))
    return std::nullopt;
  return object_in(members->front().value);
}

bool wraps_arguments(std::string_view name) { return is_one_of(name, kArguments); }

}  // namespace baleen
