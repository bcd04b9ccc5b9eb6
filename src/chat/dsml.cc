#include "chat/dsml.h"

#include "chat/format.h"
#include "chat/python_json.h"

namespace baleen {
namespace {

using chat_format::kDsml;

void add_tag(MarkedText& out, std::string_view before, std::string_view after) {
  out.add_text(before);
  out.add_control(kDsml);
  out.add_text(after);
}

void add_parameter(MarkedText& out, const CallTags& tags, std::string_view name, const PythonJson& value) {
  const std::string* text = value.as_string();
  add_tag(out, "<", tags.parameter + " name=\"");
  out.add_text(name);
  out.add_text(text != nullptr ? "\" string=\"true\">" : "\" string=\"false\">");
  out.add_text(text != nullptr ? *text : dump_python_json(value));
  add_tag(out, "</", tags.parameter + ">");
}

/// The object that the text is JSON of; with rules that take any arguments also where it is JSON of such
/// JSON.
Result<PythonJson> arguments_of(const ToolCall& call, const PromptRules& rules) {
  const PythonJson raw(PythonJson::Object{{"arguments", call.arguments}});
  Result<PythonJson> parsed = parse_python_json(call.arguments);
  if (!parsed) return raw;
  if (parsed.value().as_object() != nullptr) return parsed;
  if (!rules.takes_any_arguments) {
    return failure(
        "call of {}: its arguments are {}; expected the JSON text of an object, such as {{\"key\": 1}}",
        quote_python_json(call.name), parsed.value().kind());
  }
  const std::string* inner = parsed.value().as_string();
  if (inner == nullptr) return raw;
  Result<PythonJson> again = parse_python_json(*inner);
  return again && again.value().as_object() != nullptr ? again : Result<PythonJson>(raw);
}

}  // namespace

Result<MarkedText> render_tool_calls(std::span<const ToolCall> calls, const PromptRules& rules) {
  const CallTags& tags = rules.tags;
  MarkedText out;
  add_tag(out, "<", tags.calls + ">\n");
  for (const ToolCall& call : calls) {
    add_tag(out, "<", tags.invoke + " name=\"");
    out.add_text(call.name);
    out.add_text("\">\n");
    const Result<PythonJson> arguments = arguments_of(call, rules);
    if (!arguments) return Failure{arguments.error()};
    std::string_view separator;
    for (const auto& [name, value] : *arguments.value().as_object()) {
      out.add_text(separator);
      add_parameter(out, tags, name, value);
      separator = "\n";
    }
    out.add_text("\n");
    add_tag(out, "</", tags.invoke + ">\n");
  }
  add_tag(out, "</", tags.calls + ">");
  return out;
}

MarkedText with_marked_tags(std::string_view block) {
  MarkedText out;
  for (std::size_t at = block.find(kDsml); at != std::string_view::npos; at = block.find(kDsml)) {
    add_tag(out, block.substr(0, at), "");
    block.remove_prefix(at + kDsml.size());
  }
  out.add_text(block);
  return out;
}

}  // namespace baleen
