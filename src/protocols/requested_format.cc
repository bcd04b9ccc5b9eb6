#include "protocols/requested_format.h"

namespace baleen {

void read_format(const RequestFields& format, std::string_view nested, bool needs_name,
                 ResponseFormat& result) {
  const std::string type = format.required_text("type");
  if (type == "json_object") {
    result.kind = ResponseFormat::Kind::kJsonObject;
  } else if (type == "json_schema") {
    result.kind = ResponseFormat::Kind::kJsonSchema;
    const auto inner = nested.empty() ? std::optional(format) : format.fields(nested);
    if (!inner) return format.expected(nested, "an object with a name and a schema");
    if (needs_name) result.name = inner->required_name("name");
    if (inner->object("schema") == nullptr) return inner->expected("schema", "a JSON schema");
    result.schema = *inner->find("schema");
  } else if (type != "text") {
    format.expected("type", "text, json_object or json_schema");
  }
}

PythonJson format_in_prompt(const ResponseFormat& format) {
  if (format.kind == ResponseFormat::Kind::kJsonSchema) return format.schema;
  if (format.kind == ResponseFormat::Kind::kJsonObject) return PythonJson::Object{{"type", "object"}};
  return {};
}

}  // namespace baleen
