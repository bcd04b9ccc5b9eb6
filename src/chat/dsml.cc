#include "chat/dsml.h"

#include <iterator>

#include "chat/python_json.h"

namespace baleen {
namespace {

void append_parameter(std::string& out, std::string_view name, const PythonJson& value) {
  const std::string* text = value.as_string();
  fmt::format_to(std::back_inserter(out),
                 "<｜DSML｜parameter name=\"{}\" string=\"{}\">{}</｜DSML｜parameter>", name, text != nullptr,
                 text != nullptr ? *text : dump_python_json(value));
}

}  // namespace

Result<std::string> render_tool_calls(std::span<const ToolCall> calls) {
  std::string out = "<｜DSML｜tool_calls>\n";
  for (const ToolCall& call : calls) {
    fmt::format_to(std::back_inserter(out), "<｜DSML｜invoke name=\"{}\">\n", call.name);
    const Result<PythonJson> parsed = parse_python_json(call.arguments);
    const PythonJson arguments =
        parsed ? parsed.value() : PythonJson(PythonJson::Object{{"arguments", call.arguments}});
    if (arguments.as_object() == nullptr) {
      return failure(
          "call of {}: its arguments are {}; expected the JSON text of an object, such as {{\"key\": 1}}",
          quote_python_json(call.name), arguments.kind());
    }
    std::string_view separator;
    for (const auto& [name, value] : *arguments.as_object()) {
      out += separator;
      append_parameter(out, name, value);
      separator = "\n";
    }
    out += "\n</｜DSML｜invoke>\n";
  }
  out += "</｜DSML｜tool_calls>";
  return out;
}

}  // namespace baleen
