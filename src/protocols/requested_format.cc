#include "protocols/requested_format.h"

#include "protocols/requested_tools.h"

namespace baleen {
namespace {

constexpr std::size_t kMaxGuidedChoices = 10'000;

void set_schema(const PythonJson& schema, ResponseFormat& result) {
  result.kind = ResponseFormat::Kind::kJsonSchema;
  result.schema = schema;
}

void set_pattern(std::string pattern, ResponseFormat& result) {
  result.kind = ResponseFormat::Kind::kPattern;
  result.pattern = std::move(pattern);
}

/// A schema as an object, or as its JSON in a string.
void read_schema(const RequestFields& fields, std::string_view name, ResponseFormat& result) {
  const PythonJson* value = fields.find(name);
  if (const std::string* text = value->as_string()) {
    const Result<PythonJson> parsed = parse_python_json(*text);
    if (!parsed || parsed.value().as_object() == nullptr) return fields.expected(name, "a JSON schema");
    return set_schema(parsed.value(), result);
  }
  if (fields.object(name) != nullptr) set_schema(*value, result);
}

void read_choices(const RequestFields& fields, std::string_view name, ResponseFormat& result) {
  const PythonJson::Array* list = fields.list(name, kMaxGuidedChoices);
  if (list == nullptr) return;
  if (list->empty()) return fields.refuse(name, "is empty; a reply must be one of its texts");
  std::string pattern;
  for (const PythonJson& choice : *list) {
    const std::string* text = choice.as_string();
    if (text == nullptr) return fields.expected(name, "an array of strings");
    if (!pattern.empty()) pattern += '|';
    for (const char c : *text) {
      if (std::string_view(R"(\^$.|?*+()[]{}/)").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  set_pattern(std::move(pattern), result);
}

void read_one(const RequestFields& fields, std::string_view name, std::string_view form,
              ResponseFormat& result) {
  if (!fields.has(name)) return;
  if (result.kind != ResponseFormat::Kind::kText) {
    return fields.refuse(name, "another field says already what form the reply has; send one of them");
  }
  if (form == "schema") read_schema(fields, name, result);
  if (form == "choice") read_choices(fields, name, result);
  if (form == "regex") set_pattern(fields.required_text(name), result);
  if (form == "object" && fields.flag(name).value_or(false)) result.kind = ResponseFormat::Kind::kJsonObject;
}

}  // namespace

void read_enforced_output(const RequestFields& fields, ApiRequest& request) {
  ResponseFormat& result = request.response_format;
  read_one(fields, "guided_json", "schema", result);
  read_one(fields, "json_schema", "schema", result);
  read_one(fields, "guided_regex", "regex", result);
  read_one(fields, "regex", "regex", result);
  read_one(fields, "guided_choice", "choice", result);
  if (const auto outputs = fields.fields("structured_outputs")) {
    outputs->refuse_if_present("grammar", "grammars in EBNF are not supported; send json, regex or choice");
    outputs->refuse_if_present("structural_tag", "declare tools; their calls are enforced");
    read_one(*outputs, "json", "schema", result);
    read_one(*outputs, "regex", "regex", result);
    read_one(*outputs, "choice", "choice", result);
    read_one(*outputs, "json_object", "object", result);
  }
  if (result.kind == ResponseFormat::Kind::kPattern && !request.tools.empty() &&
      request.tool_choice.kind != ToolChoice::Kind::kNone) {
    fields.refuse("tools", "a reply that must match a pattern cannot call tools; set tool_choice to none");
  }
}

void read_format(const RequestFields& format, std::string_view nested, bool needs_name,
                 ResponseFormat& result) {
  const std::string type = format.required_text("type");
  if (type == "json_object" && format.object("schema") != nullptr) {
    set_schema(*format.find("schema"), result);
  } else if (type == "json_object") {
    result.kind = ResponseFormat::Kind::kJsonObject;
  } else if (type == "regex") {
    set_pattern(format.required_text("pattern"), result);
  } else if (type == "json_schema") {
    // Some clients write the schema beside the type, where others nest it.
    const bool is_flat = nested.empty() || (!format.has(nested) && format.has("schema"));
    const auto inner = is_flat ? std::optional(format) : format.fields(nested);
    if (!inner) return format.expected(nested, "an object with a name and a schema");
    if (needs_name && (nested.empty() || !is_flat)) result.name = inner->required_name("name");
    if (inner->object("schema") == nullptr) return inner->expected("schema", "a JSON schema");
    set_schema(*inner->find("schema"), result);
    using Holding = ResponseFormat::Holding;
    if (needs_name)
      result.holding = inner->flag("strict").value_or(false) ? Holding::kStrict : Holding::kPossible;
  } else if (type != "text") {
    format.expected("type", "text, json_object, json_schema or regex");
  }
}

PythonJson format_in_prompt(const ResponseFormat& format) {
  if (format.kind == ResponseFormat::Kind::kJsonSchema) return format.schema;
  if (format.kind == ResponseFormat::Kind::kJsonObject) return PythonJson::Object{{"type", "object"}};
  return {};
}

}  // namespace baleen
