#include "everyday_calls.h"

#include <algorithm>
#include <array>
#include <utility>

namespace baleen::test {
namespace {

const char* const kTools = R"json([
{"name": "run_command", "parameters": {"type": "object", "properties": {
  "command": {"type": "string"}, "timeout_ms": {"type": "integer"}, "background": {"type": "boolean"}},
  "required": ["command"]}},
{"name": "write_file", "parameters": {"type": "object", "properties": {
  "path": {"type": "string"}, "content": {"type": "string"}}, "required": ["path", "content"],
  "additionalProperties": false}},
{"name": "edit_file", "parameters": {"type": "object", "properties": {
  "path": {"type": "string"}, "edits": {"type": "array", "items": {"type": "object", "properties": {
    "old_text": {"type": "string"}, "new_text": {"type": "string"}}, "required": ["old_text", "new_text"],
    "additionalProperties": false}},
  "dryRun": {"type": "boolean", "default": false}}, "required": ["path", "edits"]}},
{"name": "get_weather", "parameters": {"type": "object", "properties": {
  "city": {"type": "string"}, "days": {"type": "integer", "minimum": 1},
  "units": {"type": "string", "enum": ["celsius", "fahrenheit"]},
  "place": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
            "required": ["lat", "lon"], "additionalProperties": false}}, "required": ["city"]}},
{"name": "query_database", "parameters": {"type": "object", "properties": {
  "sql": {"type": "string"}, "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
  "binds": {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}}},
  "required": ["sql"]}},
{"name": "search_web", "parameters": {"type": "object", "properties": {
  "query": {"type": "string"}, "num_results": {"type": ["integer", "null"]},
  "domains": {"type": "array", "items": {"type": "string"}}, "safe": {"type": "boolean"},
  "options": {"type": "object"}}, "required": ["query"], "additionalProperties": false}},
{"name": "launch", "parameters": {"type": "object", "properties": {
  "name": {"type": "string"}, "arguments": {"type": "string"}, "input": {"type": "object"},
  "value": {"type": "number"}}, "required": ["name", "arguments"]}},
{"name": "click", "parameters": {"type": "object", "properties": {
  "x": {"type": "number"}, "y": {"type": "number"}, "button": {"enum": ["left", "right"]}},
  "required": ["x", "y"]}},
{"name": "create-event", "parameters": {"type": "object", "properties": {
  "title": {"type": "string"}, "attendees": {"type": "array", "items": {"type": "string"}},
  "reminder": {"type": "object", "properties": {"minutes": {"type": "integer"}, "by": {"type": "string"}}}},
  "required": ["title", "attendees"]}},
{"name": "list_pages", "parameters": {"type": "object", "properties": {}}}
])json";

/// A call as it is drawn: a tool and the JSON of its arguments.
struct Drawn {
  const char *tool, *arguments;
};

constexpr Drawn kCalls[] = {
    {"run_command", R"json({"command": "ls -la"})json"},
    {"run_command", R"json({"command": "grep -rn \"a > b\" src | head -5", "timeout_ms": 30000})json"},
    {"run_command",
     R"json({"command": "cd /srv && make test 2>&1", "background": true, "timeout_ms": 1500})json"},
    {"run_command", R"json({"command": "python3 -c 'print(\"<b>\")'", "background": false})json"},
    {"write_file", R"json({"path": "notes/todo.md", "content": "# To do\n\n- one\n- two\n"})json"},
    {"write_file", R"json({"path": "src/a.html", "content": "<p class=\"x\">1 < 2 & 3</p>\n"})json"},
    {"write_file", R"json({"path": "C:\\dir\\new\\table.txt", "content": "a\tb"})json"},
    {"write_file",
     R"json({"path": "package.json", "content": "{\n  \"name\": \"x\",\n  \"private\": true\n}\n"})json"},
    {"edit_file", R"json({"path": "main.py", "edits": [{"old_text": "x = 1", "new_text": "x = [1, 2]"}],
                          "dryRun": true})json"},
    {"edit_file", R"json({"path": "a.c", "edits": [{"old_text": "a", "new_text": "b"},
                                                   {"old_text": "it's", "new_text": ""}]})json"},
    {"get_weather", R"json({"city": "Paris"})json"},
    {"get_weather", R"json({"city": "京都 “old”", "days": 3, "units": "celsius"})json"},
    {"get_weather", R"json({"city": "Oslo", "days": 12, "place": {"lat": 59.91, "lon": 10.75}})json"},
    {"query_database", R"json({"sql": "SELECT * FROM t WHERE a = 'x' AND b < 3", "limit": 1000})json"},
    {"query_database",
     R"json({"sql": "DELETE FROM visits WHERE day < ?", "binds": ["2024-01-01", 7, true, null]})json"},
    {"search_web", R"json({"query": "weather & wind, today", "num_results": 5})json"},
    {"search_web",
     R"json({"query": "c++ modules", "domains": ["a.org", "b.net"], "safe": true,
             "options": {"lang": "en", "pages": [1, 2]}})json"},
    {"launch", R"json({"name": "server", "arguments": "--port 80", "input": {"x": 7}, "value": 2.5})json"},
    {"launch", R"json({"name": "n", "arguments": "a=1"})json"},
    {"click", R"json({"x": 120, "y": 48.5})json"},
    {"click", R"json({"x": 7, "y": 9, "button": "right"})json"},
    {"create-event",
     R"json({"title": "Review", "attendees": ["ana", "bo"], "reminder": {"minutes": 30, "by": "mail"}})json"},
    {"list_pages", "{}"},
};

void add(std::vector<Piece>& pieces, std::string text, bool is_tag = true) {
  pieces.push_back({std::move(text), is_tag});
}

void add_invoke(std::vector<Piece>& pieces, const Call& call) {
  add(pieces, "<｜DSML｜invoke name=\"" + call.meant.name + "\">\n");
  for (const Parameter& parameter : call.parameters) {
    add(pieces, "<｜DSML｜parameter name=\"" + parameter.key + "\" string=\"" +
                    (parameter.is_string ? "true" : "false") + "\">");
    add(pieces, parameter.text, false);
    add(pieces, "</｜DSML｜parameter>\n");
  }
  add(pieces, "</｜DSML｜invoke>\n");
}

}  // namespace

const std::vector<DeclaredTool>& everyday_tools() {
  static const std::vector<DeclaredTool> kDeclared = [] {
    const PythonJson list = parse_python_json(kTools).value();
    std::vector<DeclaredTool> tools;
    for (const PythonJson& tool : *list.as_array())
      tools.push_back({*tool.find("name")->as_string(), *tool.find("parameters")});
    return tools;
  }();
  return kDeclared;
}

const DeclaredTool& tool_named(std::string_view name) {
  return *std::ranges::find(everyday_tools(), name, &DeclaredTool::name);
}

Call drawn_call(Random& random) {
  const Drawn& drawn = kCalls[random() % std::size(kCalls)];
  Call call{.meant = {"", drawn.tool, drawn.arguments}, .parameters = {}};
  const PythonJson arguments = parse_python_json(drawn.arguments).value();
  const PythonJson* properties = tool_named(drawn.tool).parameters.find("properties");
  for (const auto& [key, value] : *arguments.as_object()) {
    const std::string* text = value.as_string();
    call.parameters.push_back(
        {key, text != nullptr ? *text : dump_python_json(value), text != nullptr, properties->find(key)});
  }
  return call;
}

std::vector<Piece> block_of(const std::vector<Call>& calls) {
  std::vector<Piece> pieces;
  add(pieces, "\n\n<｜DSML｜tool_calls>\n");
  for (const Call& call : calls) add_invoke(pieces, call);
  add(pieces, "</｜DSML｜tool_calls>");
  return pieces;
}

std::string joined(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  return text;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace baleen::test
