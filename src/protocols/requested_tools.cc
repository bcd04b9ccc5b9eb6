#include "protocols/requested_tools.h"

#include <fmt/format.h>

#include <algorithm>

#include "chat/tool_namespace.h"
#include "protocols/text_content.h"

namespace baleen {
namespace {

bool is_declared(const std::vector<DeclaredTool>& tools, std::string_view name) {
  return std::ranges::find(tools, name, &DeclaredTool::name) != tools.end();
}

}  // namespace

std::string required_tool_name(const RequestFields& fields, const PromptProfile& profile,
                               const PythonJson* name_space) {
  if (!prompt_rules(profile).has_namespaces) return fields.required_name("name");
  const std::string name = fields.required_text("name");
  if (fields.error()) return "";
  if (name_space == nullptr) name_space = fields.find("namespace");
  const Result<std::string> qualified = qualified_tool_name(name, name_space);
  if (!qualified) return fields.refuse("name", qualified.error()), "";
  const std::string_view whole = qualified.value();
  const std::size_t separator = whole.find(kNamespaceSeparator);
  const auto is_name = [](std::string_view part) {
    return !part.empty() && std::ranges::all_of(part, is_name_character);
  };
  const bool has_separator = separator != std::string_view::npos;
  const bool good = whole.size() <= kMaxNameBytes && is_name(whole.substr(0, separator)) &&
                    (!has_separator || is_name(whole.substr(separator + kNamespaceSeparator.size())));
  if (!good)
    fields.expected("name", fmt::format("1 to {} letters, digits, - or _, behind a namespace and {} or not",
                                        kMaxNameBytes, kNamespaceSeparator));
  return qualified.value();
}

bool pass_over_tool(const RequestFields& tool, std::string_view own_type, ApiRequest& request) {
  const PythonJson* type = tool.find("type");
  if (type == nullptr || type->as_string() == nullptr || *type->as_string() == own_type) return false;
  pass_over(tool, *type->as_string(), request.ignored);
  return true;
}

void add_tool(const RequestFields& function, std::string_view schema_field, PythonJson in_prompt,
              RequestedTools& tools, const PythonJson* name_space) {
  std::string name = required_tool_name(function, tools.profile, name_space);
  (void)function.text("description");
  const bool strict = function.flag("strict").value_or(false);
  // What a schema says is for the grammar to read; clients in PHP write an empty object as [].
  const PythonJson* schema = function.find(schema_field);
  const bool is_empty_list =
      schema != nullptr && schema->as_array() != nullptr && schema->as_array()->empty();
  if (!is_empty_list) (void)function.object(schema_field);
  if (function.error()) return;
  if (is_declared(tools.declared, name)) {
    return function.refuse("name", fmt::format("\"{}\" names another tool already; names must differ", name));
  }
  tools.declared.push_back(
      {std::move(name), schema == nullptr || is_empty_list ? PythonJson() : *schema, strict});
  if (prompt_rules(tools.profile).has_namespaces) {
    if (name_space == nullptr) name_space = function.find("namespace");
    in_prompt = qualified_function(in_prompt, name_space).value();  // the name was read
  }
  tools.functions.push_back(std::move(in_prompt));
}

PythonJson function_in_prompt(const RequestFields& function, std::string_view schema_field) {
  PythonJson::Object object;
  const auto copy = [&](std::string_view from, std::string_view to) {
    if (const PythonJson* value = function.find(from)) object.push_back({std::string(to), *value});
  };
  copy("name", "name");
  copy("description", "description");
  copy(schema_field, "parameters");
  return object;
}

bool is_choice_word(std::string_view word) {
  return word == "auto" || word == "none" || word == "required" || word == "any";
}

void set_tool_choice(const RequestFields& fields, std::string_view name, std::string_view word,
                     ToolChoice& choice) {
  using Kind = ToolChoice::Kind;
  if (word == "auto") {
    choice.kind = Kind::kAuto;
  } else if (word == "none") {
    choice.kind = Kind::kNone;
  } else if (word == "required" || word == "any") {  // "any" is another API's word for it
    choice.kind = Kind::kRequired;
  } else {
    fields.expected(name, "none, auto or required, or an object that names a function");
  }
}

void allow_only(const RequestFields& fields, std::string_view name, const std::vector<std::string>& names,
                std::vector<DeclaredTool>& tools) {
  for (const std::string& allowed : names) {
    if (!is_declared(tools, allowed)) {
      return fields.refuse(name, fmt::format("{} is not among the tools", describe(allowed)));
    }
  }
  std::erase_if(tools,
                [&](const DeclaredTool& tool) { return std::ranges::find(names, tool.name) == names.end(); });
}

void check_tool_choice(const RequestFields& fields, std::string_view name, const ApiRequest& request) {
  const ToolChoice& choice = request.tool_choice;
  if (choice.kind == ToolChoice::Kind::kRequired && request.tools.empty()) {
    fields.refuse(name, "asks for a tool call, but no tools are declared");
  }
  if (choice.kind == ToolChoice::Kind::kNamed && !is_declared(request.tools, choice.name)) {
    fields.refuse(name, fmt::format("{} is not among the tools", describe(choice.name)));
  }
}

}  // namespace baleen
