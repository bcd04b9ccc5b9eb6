#include "chat/tool_namespace.h"

#include <algorithm>
#include <utility>

namespace baleen {
namespace {

const std::string* text_of(const PythonJson& object, std::string_view name) {
  const PythonJson* value = object.find(name);
  return value == nullptr ? nullptr : value->as_string();
}

/// The member of that name, appended where there is none.
PythonJson& member(PythonJson::Object& object, std::string_view name) {
  const auto found = std::ranges::find(object, name, &PythonJson::Member::name);
  if (found != object.end()) return found->value;
  return object.emplace_back(PythonJson::Member{std::string(name), PythonJson()}).value;
}

}  // namespace

Result<std::string> qualified_tool_name(std::string_view name, const PythonJson* name_space) {
  std::string_view space;
  if (name_space != nullptr && !name_space->is_null()) {
    const std::string* given =
        name_space->as_object() != nullptr ? text_of(*name_space, "name") : name_space->as_string();
    if (given == nullptr || given->empty())
      return failure("expected a namespace's name, or an object with one, found {}", name_space->kind());
    space = *given;
  }
  const std::size_t separator = name.find(kNamespaceSeparator);
  if (separator != std::string_view::npos) {
    const std::string_view own = name.substr(0, separator);
    if (!space.empty() && space != own)
      return failure("{} is of the namespace {}, not {}", quote_python_json(name), quote_python_json(own),
                     quote_python_json(space));
    space = own;
    name.remove_prefix(separator + kNamespaceSeparator.size());
  }
  for (const std::string_view part : {space, name}) {
    if (part.find(kNamespaceSeparator) != std::string_view::npos)
      return failure("{} holds {}, which stands between a namespace and a name, once",
                     quote_python_json(part), kNamespaceSeparator);
  }
  if (separator == std::string_view::npos && space.empty()) return std::string(name);
  return fmt::format("{}{}{}", space, kNamespaceSeparator, name);
}

Result<PythonJson> qualified_function(const PythonJson& function, const PythonJson* name_space) {
  const PythonJson* own = function.find("namespace");
  if (name_space == nullptr || name_space->is_null()) name_space = own;
  const std::string* name = text_of(function, "name");
  if (name == nullptr) return failure("expected a string, found nothing");
  Result<std::string> qualified = qualified_tool_name(*name, name_space);
  if (!qualified) return Failure{qualified.error()};
  PythonJson::Object declared = *function.as_object();
  member(declared, "name") = PythonJson(std::move(qualified).value());
  const std::string* before = name_space == nullptr ? nullptr : text_of(*name_space, "description");
  if (before != nullptr && !before->empty()) {
    const std::string* after = text_of(function, "description");
    member(declared, "description") = PythonJson(*before + "\n" + (after == nullptr ? "" : *after));
  }
  std::erase_if(declared, [](const PythonJson::Member& one) { return one.name == "namespace"; });
  return PythonJson(std::move(declared));
}

}  // namespace baleen
