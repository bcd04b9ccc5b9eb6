#include "protocols/tool_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "chat/tool_namespace.h"
#include "protocols/conversation.h"
#include "protocols/text_content.h"

namespace baleen {
namespace {

constexpr std::string_view kBetween = "__";

bool is_taken(const RequestedTools& tools, std::string_view name) {
  return std::ranges::find(tools.declared, name, &DeclaredTool::name) != tools.declared.end();
}

/// The function under another name, its description behind that of the group.
PythonJson renamed(const PythonJson& function, const std::string& name, std::string description) {
  PythonJson::Object copy{{"name", name}};
  if (const PythonJson* own = function.find("description"); own != nullptr && own->as_string() != nullptr)
    append_part(description, *own->as_string());
  if (!description.empty()) copy.push_back({"description", std::move(description)});
  for (const PythonJson::Member& member : *function.as_object()) {
    if (member.name != "name" && member.name != "description") copy.push_back(member);
  }
  return copy;
}

}  // namespace

std::string grouped_name(std::string_view group, std::string_view name, const PromptProfile& profile) {
  if (prompt_rules(profile).has_namespaces) return fmt::format("{}{}{}", group, kNamespaceSeparator, name);
  const std::size_t end = group.find_last_not_of('_'), begin = name.find_first_not_of('_');
  return fmt::format("{}{}{}", group.substr(0, end == std::string_view::npos ? 0 : end + 1), kBetween,
                     begin == std::string_view::npos ? std::string_view() : name.substr(begin));
}

std::string required_call_name(const RequestFields& call, const PromptProfile& profile) {
  if (prompt_rules(profile).has_namespaces) return required_tool_name(call, profile);
  std::string name = call.required_name("name");
  if (const std::string* group = call.text("namespace"); group != nullptr && !group->empty())
    return grouped_name(call.required_name("namespace"), name, profile);
  return name;
}

std::string plain_name(std::string name) {
  if (name.size() > kMaxNameBytes) name.resize(kMaxNameBytes);
  for (char& c : name) {
    if (!is_name_character(c)) c = '_';
  }
  return name;
}

std::string kept_call_name(const RequestFields& call, const PromptProfile& profile) {
  const auto text_of = [&](std::string_view field) -> std::string_view {
    const PythonJson* value = call.find(field);
    return value == nullptr || value->as_string() == nullptr ? std::string_view() : *value->as_string();
  };
  const std::string_view name = text_of("name"), group = text_of("namespace");
  if (group.empty()) return plain_name(std::string(name));
  return prompt_rules(profile).has_namespaces
             ? grouped_name(plain_name(std::string(group)), plain_name(std::string(name)), profile)
             : plain_name(grouped_name(group, name, profile));
}

void add_tool_group(const RequestFields& group, RequestedTools& tools, ApiRequest& request) {
  pass_over(group, "namespace: flattened", request.ignored);
  const std::string group_name = group.required_name("name");
  const PythonJson::Array* list = group.list("tools", kMaxTools);
  const std::string* text = group.text("description");
  std::string description = text == nullptr ? "" : *text;
  for (std::size_t i = 0; list != nullptr && i < list->size() && !group.error(); ++i) {
    const RequestFields tool((*list)[i], group.path("tools", i), group.error());
    if (pass_over_tool(tool, "function", request)) continue;
    const std::string name = tool.required_name("name");
    if (tools.declared.size() >= kMaxTools)
      return group.refuse("tools", fmt::format("at most {} tools of a request are taken", kMaxTools));
    if (tool.error()) return;
    std::string declared_name = grouped_name(group_name, name, tools.profile);
    if (declared_name.size() > kMaxNameBytes || is_taken(tools, declared_name)) {
      pass_over(tool, declared_name.size() > kMaxNameBytes ? "its name is too long" : "its name is taken",
                request.ignored);
      continue;
    }
    if (prompt_rules(tools.profile).has_namespaces) {
      const PythonJson name_space(PythonJson::Object{{"name", group_name}, {"description", description}});
      add_tool(tool, "parameters", function_in_prompt(tool, "parameters"), tools, &name_space);
    } else {
      const PythonJson function = renamed(tool.value(), declared_name, std::exchange(description, {}));
      const RequestFields fields(function, tool.path(), tool.error());
      add_tool(fields, "parameters", function_in_prompt(fields, "parameters"), tools);
    }
    request.grouped_tools.push_back({std::move(declared_name), group_name, name});
  }
}

const GroupedTool* find_grouped(const std::vector<GroupedTool>& tools, std::string_view declared_name) {
  const auto found = std::ranges::find(tools, declared_name, &GroupedTool::declared_name);
  return found == tools.end() ? nullptr : &*found;
}

}  // namespace baleen
