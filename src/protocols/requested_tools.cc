#include "protocols/requested_tools.h"

#include <fmt/format.h>

#include <algorithm>

#include "protocols/text_content.h"

namespace baleen {
namespace {

bool is_declared(const std::vector<DeclaredTool>& tools, std::string_view name) {
  return std::ranges::find(tools, name, &DeclaredTool::name) != tools.end();
}

/// A tool's arguments are an object, so its schema may not ask for anything else.
void check_schema(const RequestFields& function, std::string_view schema_field) {
  const auto schema = function.fields(schema_field);
  if (!schema) return;
  const PythonJson* type = schema->find("type");
  if (type != nullptr && (type->as_string() == nullptr || *type->as_string() != "object")) {
    schema->expected("type", "\"object\", since arguments are an object");
  }
  (void)schema->object("properties");
}

}  // namespace

bool pass_over_tool(const RequestFields& tool, std::string_view own_type, ApiRequest& request) {
  const PythonJson* type = tool.find("type");
  if (type == nullptr || type->as_string() == nullptr || *type->as_string() == own_type) return false;
  pass_over(tool, *type->as_string(), request.ignored);
  return true;
}

void add_tool(const RequestFields& function, std::string_view schema_field, PythonJson in_prompt,
              RequestedTools& tools) {
  std::string name = function.required_name("name");
  (void)function.text("description");
  check_schema(function, schema_field);
  if (function.error()) return;
  if (is_declared(tools.declared, name)) {
    return function.refuse("name", fmt::format("\"{}\" names another tool already; names must differ", name));
  }
  const PythonJson* schema = function.find(schema_field);
  tools.declared.push_back({std::move(name), schema == nullptr ? PythonJson() : *schema});
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

void set_tool_choice(const RequestFields& fields, std::string_view name, std::string_view word,
                     ToolChoice& choice) {
  using Kind = ToolChoice::Kind;
  if (word == "auto") {
    choice.kind = Kind::kAuto;
  } else if (word == "none") {
    choice.kind = Kind::kNone;
  } else if (word == "required") {
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
