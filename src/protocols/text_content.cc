#include "protocols/text_content.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "protocols/conversation.h"

namespace baleen {

void refuse_part(const RequestFields& part, std::string_view type, std::string_view taken) {
  part.refuse("type",
              fmt::format("{} is not taken here; this model reads text, so send {}", describe(type), taken));
}

std::string read_text_content(const RequestFields& fields, std::string_view name,
                              std::initializer_list<std::string_view> text_types) {
  const PythonJson* value = fields.find(name);
  if (value == nullptr) return "";
  if (const std::string* text = value->as_string()) return *text;
  const PythonJson::Array* parts = value->as_array();
  if (parts == nullptr) {
    fields.expected(name, "a string or an array of content parts");
    return "";
  }
  std::string whole;
  for (std::size_t i = 0; i < parts->size() && !fields.error(); ++i) {
    const RequestFields part((*parts)[i], fields.path(name, i), fields.error());
    const std::string type = part.required_text("type");
    if (type == "refusal") {
      append_part(whole, part.required_text("refusal"));
    } else if (std::ranges::find(text_types, type) != text_types.end()) {
      append_part(whole, part.required_text("text"));
    } else {
      refuse_part(part, type, fmt::format("{}", fmt::join(text_types, " or ")));
    }
  }
  return whole;
}

std::string required_text_content(const RequestFields& fields, std::string_view name,
                                  std::initializer_list<std::string_view> text_types) {
  if (!fields.has(name)) fields.expected(name, "a string or an array of content parts");
  return read_text_content(fields, name, text_types);
}

}  // namespace baleen
