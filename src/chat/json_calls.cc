#include "chat/json_calls.h"

#include <utility>

#include "chat/json_repair.h"

namespace baleen {
namespace {

std::optional<PythonJson> strict_or_repaired(std::string_view text) {
  if (std::optional<PythonJson> value = read_strict_json(text)) return value;
  const std::optional<std::string> repaired = repaired_json(text);
  return repaired ? read_strict_json(*repaired) : std::nullopt;
}

std::optional<JsonCall> json_call(const PythonJson& value) {
  if (const PythonJson* function = value.find("function");
      function != nullptr && function->as_object() != nullptr)
    return json_call(*function);
  const PythonJson* name = value.find("name");
  const PythonJson* arguments = value.find("arguments");
  if (arguments == nullptr) arguments = value.find("parameters");
  if (name == nullptr || name->as_string() == nullptr || arguments == nullptr) return std::nullopt;
  if (const PythonJson::Object* members = arguments->as_object())
    return JsonCall{*name->as_string(), *members};
  if (arguments->as_string() == nullptr) return std::nullopt;
  const std::optional<PythonJson> inner = strict_or_repaired(*arguments->as_string());
  if (!inner || inner->as_object() == nullptr) return std::nullopt;
  return JsonCall{*name->as_string(), *inner->as_object()};
}

}  // namespace

std::optional<std::vector<JsonCall>> json_calls(std::string_view text) {
  const std::string_view bare = without_code_fence(text);
  if (!bare.starts_with('{') && !bare.starts_with('[')) return std::nullopt;
  const std::optional<PythonJson> value = strict_or_repaired(bare);
  if (!value) return std::nullopt;
  std::vector<JsonCall> calls;
  const PythonJson::Array one{*value};
  for (const PythonJson& element : value->as_array() != nullptr ? *value->as_array() : one) {
    std::optional<JsonCall> call = json_call(element);
    if (!call) return std::nullopt;
    calls.push_back(*std::move(call));
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

}  // namespace baleen
