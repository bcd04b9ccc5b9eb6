#include "damaged_calls.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "chat/python_json.h"

namespace baleen::test {
namespace {

using Random = std::mt19937;

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

struct Parameter {
  std::string key, text;
  bool is_string = false;
  const PythonJson* schema = nullptr;
};

struct Call {
  ToolCall meant;
  std::vector<Parameter> parameters;
};

/// A block in pieces, so that damage to markup never touches a value.
struct Piece {
  std::string text;
  bool is_tag = false;
};

template <class T>
const T& pick(Random& random, const std::vector<T>& of) {
  return of[random() % of.size()];
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

/// Damage to tags: `from` becomes `to`, in one tag or in all.
struct TagDamage {
  const char *kind, *from, *to;
  bool is_clear = true;
};

constexpr TagDamage kTagDamages[] = {
    // Names of tags.
    {"misspelt parameter", "parameter", "paramter"},
    {"misspelt parameter", "parameter", "paramater"},
    {"misspelt parameter", "parameter", "parametr"},
    {"misspelt parameter", "parameter", "parametre"},
    {"misspelt parameter", "parameter", "parameters"},
    {"misspelt parameter", "parameter", "prameter"},
    {"other word for parameter", "parameter", "param"},
    {"other word for parameter", "parameter", "argument"},
    {"other word for parameter", "parameter", "arg"},
    {"other word for parameter", "parameter", "Parameter"},
    {"other word for parameter", "parameter", "PARAMETER"},
    {"misspelt invoke", "invoke", "invok"},
    {"misspelt invoke", "invoke", "inovke"},
    {"misspelt invoke", "invoke", "invokes"},
    {"misspelt invoke", "invoke", "Invoke"},
    {"other word for invoke", "invoke", "call"},
    {"other word for invoke", "invoke", "function"},
    {"other word for invoke", "invoke", "function_call"},
    {"other word for invoke", "invoke", "tool"},
    {"other word for block", "tool_calls", "function_calls"},
    {"other word for block", "tool_calls", "tool_call"},
    {"other word for block", "tool_calls", "toolcalls"},
    {"other word for block", "tool_calls", "tools_calls"},
    {"other word for block", "tool_calls", "tool-calls"},
    {"other word for block", "tool_calls", "calls"},
    // Names of attributes.
    {"misspelt attribute", " name=", " nmae="},
    {"misspelt attribute", " name=", " nam="},
    {"misspelt attribute", " name=", " Name="},
    {"misspelt attribute", " string=", " strng="},
    {"misspelt attribute", " string=", " String="},
    {"misspelt attribute", " string=", " is_string="},
    {"other attribute for name", " name=", " id="},
    {"other attribute for name", " name=", " key="},
    {"other attribute for name", "invoke name=", "invoke function="},
    {"other attribute for name", "invoke name=", "invoke tool="},
    {"other attribute for name", "invoke name=", "invoke tool_name="},
    {"other attribute for name", "parameter name=", "parameter param="},
    {"other attribute for name", "parameter name=", "parameter parameter="},
    {"attribute and tag run together", "invoke name=", "invokename="},
    {"attribute and tag run together", "parameter name=", "parametername="},
    {"attribute and tag run together", "invoke name=", "invoke="},
    {"attribute and tag run together", "parameter name=", "parameter="},
    {"attribute without its name", "invoke name=\"", "invoke \""},
    {"attribute without its name", "parameter name=\"", "parameter \""},
    {"attributes beside the known", "invoke name=", "invoke id=\"call_1\" name="},
    {"attributes beside the known", " string=", " required=\"true\" string="},
    {"attributes beside the known", " string=\"true\"", " type=\"string\" string=\"true\""},
    {"type for string", " string=\"true\"", " type=\"string\""},
    {"type for string", " string=\"false\"", " type=\"json\""},
    {"no string attribute", " string=\"true\"", ""},
    {"no string attribute", " string=\"false\"", ""},
    {"string attribute wrong", "string=\"true\"", "string=\"false\""},
    {"string attribute wrong", "string=\"false\"", "string=\"true\""},
    {"string attribute wrong", "string=\"true\"", "string=\"1\""},
    {"string attribute wrong", "string=\"true\"", "string"},
    {"colon for equals", "name=", "name: "},
    {"colon for equals", "name=", "name : "},
    {"colon for equals", "=\"", " = \""},
    {"other sign for equals", "name=", "name:="},
    {"other sign for equals", "name=", "name=="},
    {"other sign for equals", "name=\"", "name=>\""},
    {"other separator of attributes", "\" string", "\"; string"},
    {"other separator of attributes", "\" string", "\"&string"},
    {"other separator of attributes", "\" string", "\" | string"},
    // Quotation marks.
    {"entity quotes", "\"", "&quot;"},
    {"entity quotes", "\"", "&#34;"},
    {"entity quotes", "\"", "&apos;"},
    {"other quotes", "\"", "'"},
    {"other quotes", "\"", "＂"},
    {"other quotes", "\"", "`"},
    {"other quotes", "\"", "\\\""},
    {"other quotes", "\"", "\"\""},
    {"other quotes", "name=\"", "name=“"},
    {"other quotes", "\"", "”"},
    {"other quotes", "name=\"", "name=«"},
    {"signs around a name", "name=\"", "name=\"@"},
    {"signs around a name", "\" string", ":\" string"},
    {"signs around a name", "_", "\\_"},
    {"no quotes", "\"", ""},
    {"lost quote", "name=\"", "name="},
    {"lost quote", "\">", ">"},
    {"lost quote", "\" string", " string"},
    {"lost quote", "string=\"", "string="},
    // Brackets.
    {"full-width brackets", "<", "＜"},
    {"full-width brackets", ">", "＞"},
    {"full-width slash", "</", "<／"},
    {"full-width equals", "=", "＝"},
    {"entity brackets", "<", "&lt;"},
    {"entity brackets", ">", "&gt;"},
    {"lost bracket", "<", ""},
    {"lost bracket", "\">", "\""},
    {"lost bracket", "parameter>", "parameter"},
    {"lost bracket", "invoke>", "invoke"},
    {"lost bracket", "tool_calls>", "tool_calls"},
    {"backslash for slash", "</", "<\\"},
    {"slash after the token", "</｜DSML｜", "<｜DSML｜/"},
    {"lost slash", "</｜DSML｜parameter>", "<｜DSML｜parameter>"},
    {"lost slash", "</｜DSML｜invoke>", "<｜DSML｜invoke>"},
    // White space.
    {"no-break spaces", " ", "\u00a0"},
    {"no-break spaces", "｜ ", "｜\u00a0"},
    {"ideographic spaces", " ", "\u3000"},
    {"narrow spaces", " ", "\u202f"},
    {"zero-width characters", " name", " \u200bname"},
    {"zero-width characters", "<｜DSML｜invoke", "\ufeff<｜DSML｜invoke"},
    {"white space", "<｜DSML｜", "< ｜DSML｜ "},
    {"white space", "\">", "\" >"},
    {"white space", ">\n", ">"},
    {"white space", ">\n", ">\r\n"},
    {"white space", " ", "  "},
    {"white space", " ", "\t"},
    {"white space", " string", "string"},
    {"no-break spaces between tags", ">\n", ">\u00a0\n"},
    // Tokens.
    {"token spelled", "<｜DSML｜parameter", "<|DSML|parameter"},
    {"token spelled", "</｜DSML｜", "</|DSML|"},
    {"token spelled", "</｜DSML｜", "</DSML|"},
    {"token spelled", "<｜DSML｜invoke", "<|DSML|invoke"},
    {"token spelled", "</｜DSML｜parameter", "<|/DSML|parameter"},
    {"token spelled", "<｜DSML｜parameter", "<|dsml|parameter"},
    {"token spelled", "<｜DSML｜parameter", "<||DSML||parameter"},
    {"token spelled", "<｜DSML｜invoke", "<\\|DSML\\|invoke"},
    {"slashes of a closing tag", "</｜DSML｜parameter", "<//｜DSML｜parameter"},
    {"commas between parameters", "</｜DSML｜parameter>\n", "</｜DSML｜parameter>,\n"},
    {"lost token", "<｜DSML｜parameter", "<parameter"},
    {"lost token", "</｜DSML｜", "</"},
    {"lost token", "<｜DSML｜tool_calls>", "<tool_calls>"},
    {"doubled token", "｜DSML｜", "｜DSML｜｜DSML｜"},
    {"doubled token", "<｜DSML｜", "<｜DSML｜<｜DSML｜"},
    // Closing tags.
    {"lost closing tag", "</｜DSML｜parameter>\n", "\n"},
    {"lost closing tag", "</｜DSML｜parameter>\n", ""},
    {"lost closing tag", "</｜DSML｜invoke>\n", ""},
    {"lost closing tag", "</｜DSML｜tool_calls>", ""},
    {"doubled closing tag", "</｜DSML｜parameter>", "</｜DSML｜parameter></｜DSML｜parameter>"},
    {"doubled closing tag", "</｜DSML｜invoke>", "</｜DSML｜invoke>\n</｜DSML｜invoke>"},
    {"doubled closing tag", "</｜DSML｜tool_calls>", "</｜DSML｜tool_calls>\n</｜DSML｜tool_calls>"},
    {"closing tag of another name", "</｜DSML｜parameter>", "</｜DSML｜value>"},
    {"closing tag of another name", "</｜DSML｜parameter>", "</｜DSML｜string>"},
    {"closing tag of another name", "</｜DSML｜parameter>", "</｜DSML｜>"},
    {"closing tag with attributes", "</｜DSML｜parameter>", "</｜DSML｜parameter name=\"x\">"},
    // Opening tags.
    {"lost opening of the block", "<｜DSML｜tool_calls>\n", ""},
    {"doubled opening of the block", "<｜DSML｜tool_calls>", "<｜DSML｜tool_calls>\n<｜DSML｜tool_calls>"},
    {"lost opening of a call", "<｜DSML｜invoke ", "<｜DSML｜junk ", false},
    // Names of tools.
    {"namespaced name", "invoke name=\"", "invoke name=\"functions."},
    {"namespaced name", "invoke name=\"", "invoke name=\"default_api."},
    {"namespaced name", "invoke name=\"", "invoke name=\"default_api:"},
    {"namespaced name", "invoke name=\"", "invoke name=\"tools::"},
    {"namespaced name", "invoke name=\"", "invoke name=\"functions/"},
    {"namespaced name", "invoke name=\"", "invoke name=\"api."},
    {"unknown tool", "invoke name=\"", "invoke name=\"un", false},
};

void replace_in_tags(std::vector<Piece>& pieces, std::string_view from, std::string_view to, Random* one) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].is_tag && pieces[i].text.find(from) != std::string::npos) places.push_back(i);
  }
  if (places.empty()) return;
  if (one != nullptr) places = {pick(*one, places)};
  for (const std::size_t i : places) pieces[i].text = replaced(pieces[i].text, from, to);
}

std::string type_of(const Parameter& parameter) {
  const PythonJson* type = parameter.schema == nullptr ? nullptr : parameter.schema->find("type");
  if (type != nullptr && type->as_string() != nullptr) return *type->as_string();
  if (type != nullptr && type->as_array() != nullptr) return *type->as_array()->front().as_string();
  return parameter.schema != nullptr && parameter.schema->find("anyOf") != nullptr ? "integer" : "string";
}

bool is_structured(const Parameter& parameter) {
  return parameter.text.starts_with('{') ||
         (parameter.text.starts_with('[') && type_of(parameter) == "array");
}

/// Damage to one value. False where the kind does not fit the parameter.
struct ValueDamage {
  const char* kind;
  std::function<bool(Parameter&, Random&)> apply;
  bool is_clear = true;
};

/// Where a byte of JSON stands outside its strings.
std::vector<std::size_t> outside_strings(std::string_view json, std::string_view bytes) {
  std::vector<std::size_t> places;
  bool is_in_string = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    if (json[at] == '"') is_in_string = !is_in_string;
    if (json[at] == '\\') ++at;
    if (!is_in_string && json.substr(at).starts_with(bytes)) places.push_back(at);
  }
  return places;
}

/// All quotation marks, or anything else outside strings.
ValueDamage in_structure(const char* kind, std::string from, std::string to, std::size_t max_places = 99) {
  return {kind, [=](Parameter& parameter, Random&) {
            if (parameter.is_string || !is_structured(parameter)) return false;
            if (from == "\"") {
              if (parameter.text.find_first_of("'&\\") != std::string::npos) return false;
              parameter.text = replaced(parameter.text, from, to);
              return true;
            }
            std::vector<std::size_t> places = outside_strings(parameter.text, from);
            places.resize(std::min(places.size(), max_places));
            for (std::size_t i = places.size(); i-- > 0;) parameter.text.replace(places[i], from.size(), to);
            return !places.empty();
          }};
}

ValueDamage of_number(const char* kind, const std::function<std::string(std::string)>& spell) {
  return {kind, [spell](Parameter& parameter, Random& random) {
            if (type_of(parameter) != "integer") return false;
            parameter.text = spell(parameter.text);
            parameter.is_string = random() % 2 == 0;
            return true;
          }};
}

ValueDamage of_boolean(const char* kind, std::string yes, std::string no) {
  return {kind, [yes, no](Parameter& parameter, Random& random) {
            if (type_of(parameter) != "boolean") return false;
            parameter.text = parameter.text == "true" ? yes : no;
            parameter.is_string = random() % 2 == 0;
            return true;
          }};
}

std::string grouped(std::string digits, const std::string& separator) {
  if (digits.size() < 4) return digits;
  return digits.insert(digits.size() - 3, separator);
}

std::vector<ValueDamage> value_damages() {
  std::vector<ValueDamage> damages = {
      in_structure("single quotes", "\"", "'"),
      in_structure("escaped quotes", "\"", "\\\""),
      in_structure("entity quotes in JSON", "\"", "&quot;"),
      in_structure("trailing comma", "]", ",]"),
      in_structure("trailing comma", "}", ", }"),
      in_structure("Python literals", "true", "True"),
      in_structure("Python literals", "null", "None"),
      in_structure("full-width characters in JSON", ": ", "："),
      in_structure("full-width characters in JSON", ", ", "，"),
      in_structure("full-width characters in JSON", "[", "［"),
      in_structure("no-break spaces in JSON", ": ", ":\u00a0"),
      in_structure("bracket too many", "}", "}}", 1),
      in_structure("bracket too many", "]", "]]", 1),
      in_structure("missing comma", ", \"", " \""),
      in_structure("semicolon for comma", ", ", "; "),
      in_structure("other sign for colon", ": ", " => "),
      in_structure("other sign for colon", ": ", " = "),
      of_number("leading zeros", [](const std::string& text) { return "0" + text; }),
      of_number("thousands separator", [](const std::string& text) { return grouped(text, ","); }),
      of_number("thousands separator", [](const std::string& text) { return grouped(text, "_"); }),
      of_number("thousands separator", [](const std::string& text) { return grouped(text, " "); }),
      of_number("thousands separator", [](const std::string& text) { return grouped(text, "\u202f"); }),
      of_number("quoted number", [](const std::string& text) { return "\"" + text + "\""; }),
      of_number("sign", [](const std::string& text) { return "+" + text; }),
      of_number("white space around a number", [](const std::string& text) { return " " + text + "\n"; }),
      of_number("no-break space around a number", [](const std::string& t) { return "\u00a0" + t; }),
      of_boolean("Python literals", "True", "False"),
      of_boolean("words for booleans", "yes", "no"),
      of_boolean("quoted boolean", "\"true\"", "\"false\""),
      of_boolean("capitals", "TRUE", "FALSE"),
      of_boolean("words for booleans", "enabled", "disabled"),
      of_boolean("words for booleans", "Y", "N"),
  };
  damages.push_back({"code fence around a value", [](Parameter& parameter, Random&) {
                       if (parameter.is_string || type_of(parameter) == "string") return false;
                       parameter.text = "```json\n" + parameter.text + "\n```";
                       return true;
                     }});
  damages.push_back({"JSON string for a structure", [](Parameter& parameter, Random&) {
                       if (parameter.is_string || !is_structured(parameter)) return false;
                       parameter.text = quote_python_json(parameter.text);
                       return true;
                     }});
  damages.push_back({"JSON string for a string", [](Parameter& parameter, Random&) {
                       if (!parameter.is_string) return false;
                       parameter.text = quote_python_json(parameter.text);
                       parameter.is_string = false;
                       return true;
                     }});
  damages.push_back({"last bracket lost", [](Parameter& parameter, Random&) {
                       if (!is_structured(parameter) || parameter.is_string) return false;
                       parameter.text.pop_back();
                       return true;
                     }});
  damages.push_back({"inner bracket lost", [](Parameter& parameter, Random& random) {
                       if (!is_structured(parameter) || parameter.is_string) return false;
                       const std::vector<std::size_t> places =
                           outside_strings(parameter.text, random() % 2 == 0 ? "]" : "}");
                       if (places.empty() || places.front() + 1 == parameter.text.size()) return false;
                       parameter.text.erase(places.front(), 1);
                       return true;
                     }});
  for (const char* mark : {"'", "`"}) {
    const std::string quote = mark;
    damages.push_back({"marks around a structure", [quote](Parameter& parameter, Random&) {
                         if (parameter.is_string || !is_structured(parameter)) return false;
                         if (parameter.text.find('\'') != std::string::npos) return false;
                         parameter.text = quote + parameter.text + quote;
                         return true;
                       }});
  }
  damages.push_back({"marks around a string", [](Parameter& parameter, Random&) {
                       if (!parameter.is_string || parameter.text.find_first_of("'\\") != std::string::npos)
                         return false;
                       parameter.text = "'" + parameter.text + "'";
                       parameter.is_string = false;
                       return true;
                     }});
  damages.push_back({"a word in front of a structure", [](Parameter& parameter, Random&) {
                       if (parameter.is_string || !is_structured(parameter)) return false;
                       parameter.text = "json: " + parameter.text;
                       return true;
                     }});
  damages.push_back({"two numbers",
                     [](Parameter& parameter, Random&) {
                       if (type_of(parameter) != "number") return false;
                       parameter.text = "120 121";
                       return true;
                     },
                     false});
  damages.push_back({"scalar for an array",
                     [](Parameter& parameter, Random& random) {
                       if (type_of(parameter) != "array") return false;
                       const char* const scalars[] = {"\"ana\"", "5", "ana", "a, b", "true"};
                       parameter.text = scalars[random() % std::size(scalars)];
                       parameter.is_string = random() % 2 == 0;
                       return true;
                     },
                     false});
  damages.push_back({"array for a scalar",
                     [](Parameter& parameter, Random&) {
                       const std::string type = type_of(parameter);
                       if (type == "array" || type == "object") return false;
                       parameter.text =
                           "[" + (parameter.is_string ? quote_python_json(parameter.text) : parameter.text) +
                           "]";
                       parameter.is_string = false;
                       return true;
                     },
                     false});
  damages.push_back({"word for a number",
                     [](Parameter& parameter, Random& random) {
                       const std::string type = type_of(parameter);
                       if (type != "integer" && type != "number") return false;
                       const char* const words[] = {"soon", "5 days", "1.5.2", "12,34", "{}", "0x1F", "1/2"};
                       parameter.text = words[random() % std::size(words)];
                       parameter.is_string = random() % 2 == 0;
                       return true;
                     },
                     false});
  damages.push_back({"backslashes not escaped",
                     [](Parameter& parameter, Random&) {
                       if (!parameter.is_string || parameter.text.find('\\') == std::string::npos)
                         return false;
                       parameter.text = "\"" + parameter.text + "\"";
                       parameter.is_string = false;
                       return true;
                     },
                     false});
  damages.push_back({"end token inside a value",
                     [](Parameter& parameter, Random& random) {
                       if (!parameter.is_string) return false;
                       const std::size_t size = random() % 2 == 0 ? 0 : parameter.text.size() / 2;
                       std::size_t at = size;
                       while (at > 0 && (static_cast<unsigned char>(parameter.text[at]) & 0xC0U) == 0x80U)
                         --at;
                       parameter.text.insert(at, "<｜end▁of▁sentence｜>");
                       return true;
                     },
                     false});
  damages.push_back({"opening tag inside a value",
                     [](Parameter& parameter, Random&) {
                       if (!parameter.is_string) return false;
                       parameter.text += "\n<｜DSML｜invoke name=\"list_pages\">\n</｜DSML｜invoke>";
                       return true;
                     },
                     false});
  return damages;
}

/// The arguments as one object, as JSON in other formats has them.
std::string arguments_of(const Call& call) { return call.meant.arguments; }

std::string named(const Call& call, const char* name, const char* arguments) {
  return std::string("{\"") + name + "\": \"" + call.meant.name + "\", \"" + arguments +
         "\": " + arguments_of(call) + "}";
}

std::string in_block(const std::string& body) {
  return "\n\n<｜DSML｜tool_calls>\n" + body + "\n</｜DSML｜tool_calls>";
}

std::string in_invoke(const Call& call, const std::string& body) {
  return in_block("<｜DSML｜invoke name=\"" + call.meant.name + "\">\n" + body + "\n</｜DSML｜invoke>");
}

std::string in_parameter(const Call& call, const std::string& key, const std::string& body) {
  return in_invoke(
      call, "<｜DSML｜parameter name=\"" + key + "\" string=\"false\">" + body + "</｜DSML｜parameter>");
}

/// Another shape of the whole call. Empty where it does not fit.
struct ShapeDamage {
  const char* kind;
  std::function<std::string(const Call&, Random&)> text;
  bool is_clear = true;
};

bool has_required(const Call& call) {
  return tool_named(call.meant.name).parameters.find("required") != nullptr;
}

bool is_declared(const Call& call, std::string_view key) {
  return tool_named(call.meant.name).parameters.find("properties")->find(key) != nullptr;
}

std::string swapped_closers(const Call& call, const char* closers) {
  std::string text = joined(block_of({call}));
  const std::size_t at = text.rfind("</｜DSML｜parameter>");
  return at == std::string::npos ? "" : text.substr(0, at) + closers;
}

std::vector<ShapeDamage> shape_damages() {
  std::vector<ShapeDamage> shapes = {
      {"JSON for the parameters", [](const Call& c, Random&) { return in_invoke(c, arguments_of(c)); }},
      {"JSON for the parameters, in a fence",
       [](const Call& c, Random&) { return in_invoke(c, "```json\n" + arguments_of(c) + "\n```"); }},
      {"JSON for the parameters, without the last bracket",
       [](const Call& c, Random&) {
         const std::string json = arguments_of(c);
         return c.parameters.empty() ? "" : in_invoke(c, json.substr(0, json.size() - 1));
       }},
      {"name and arguments in the invoke",
       [](const Call& c, Random&) { return in_invoke(c, named(c, "name", "arguments")); }},
      {"name and input in the invoke",
       [](const Call& c, Random&) { return in_invoke(c, named(c, "name", "input")); }},
      {"JSON in a nameless invoke",
       [](const Call& c, Random&) {
         return in_block("<｜DSML｜invoke>\n" + named(c, "name", "arguments") + "\n</｜DSML｜invoke>");
       }},
      {"elements of the parameters' names",
       [](const Call& c, Random&) {
         std::string body;
         for (const Parameter& p : c.parameters) body += "<" + p.key + ">" + p.text + "</" + p.key + ">\n";
         return body.empty() ? "" : in_invoke(c, body);
       }},
      {"elements of keys and values",
       [](const Call& c, Random&) {
         std::string body;
         for (const Parameter& p : c.parameters)
           body += "<arg_key>" + p.key + "</arg_key>\n<arg_value>" + p.text + "</arg_value>\n";
         return body.empty() ? "" : in_invoke(c, body);
       }},
      {"lines of keys and values",
       [](const Call& c, Random& random) {
         const char* const sign = random() % 2 == 0 ? ": " : " = ";
         std::string body;
         for (const Parameter& p : c.parameters) {
           if (p.text.find('\n') != std::string::npos) return std::string();
           body += (body.empty() ? "" : "\n") + p.key + sign + p.text;
         }
         return body.empty() ? "" : in_invoke(c, body);
       }},
      {"lines of keys and values, of several lines",
       [](const Call& c, Random&) {
         std::string body;
         bool has_lines = false;
         for (const Parameter& p : c.parameters) {
           has_lines |= p.text.find('\n') != std::string::npos;
           body += (body.empty() ? "" : "\n") + p.key + ": " + p.text;
         }
         return has_lines ? in_invoke(c, body) : "";
       },
       false},
      {"function and parameters as Qwen has them, in a line each",
       [](const Call& c, Random&) {
         std::string body;
         for (const Parameter& p : c.parameters)
           body += "<parameter=" + p.key + ">" + p.text + "</parameter>\n";
         return in_block("<function=" + c.meant.name + ">\n" + body + "</function>");
       }},
      {"function and parameters as Qwen has them",
       [](const Call& c, Random&) {
         std::string body;
         for (const Parameter& p : c.parameters)
           body += "<parameter=" + p.key + ">\n" + p.text + "\n</parameter>\n";
         return in_block("<function=" + c.meant.name + ">\n" + body + "</function>");
       }},
      {"parameters half as Qwen has them",
       [](const Call& c, Random&) {
         std::string body;
         for (const Parameter& p : c.parameters)
           body += "<｜DSML｜parameter=" + p.key + ">\n" + p.text + "\n</｜DSML｜parameter>\n";
         return body.empty() ? "" : in_invoke(c, body);
       },
       false},
      {"name as an element",
       [](const Call& c, Random& random) {
         std::string block = joined(block_of({c}));
         const std::string token = random() % 2 == 0 ? "｜DSML｜" : "";
         return replaced(block, "invoke name=\"" + c.meant.name + "\">",
                         "invoke>\n<" + token + "name>" + c.meant.name + "</" + token + "name>");
       }},
      {"triple quotes of Python",
       [](const Call& c, Random&) {
         std::string members;
         bool has_string = false;
         for (const Parameter& p : c.parameters) {
           if (p.text.find('\\') != std::string::npos) return std::string();
           has_string |= p.is_string;
           members += (members.empty() ? "\"" : ", \"") + p.key +
                      "\": " + (p.is_string ? "\"\"\"" + p.text + "\"\"\"" : p.text);
         }
         return has_string ? in_invoke(c, "{" + members + "}") : "";
       }},
      {"arguments in a list of one",
       [](const Call& c, Random&) {
         return c.parameters.empty() ? "" : in_invoke(c, "[" + arguments_of(c) + "]");
       }},
      {"JSON for the call", [](const Call& c, Random&) { return in_block(named(c, "name", "arguments")); }},
      {"JSON for the call", [](const Call& c, Random&) { return in_block(named(c, "name", "parameters")); }},
      {"JSON for the call", [](const Call& c, Random&) { return in_block(named(c, "name", "input")); }},
      {"JSON for the call", [](const Call& c, Random&) { return in_block(named(c, "tool", "args")); }},
      {"JSON for the call",
       [](const Call& c, Random&) { return in_block(named(c, "tool_name", "tool_input")); }},
      {"JSON for the call",
       [](const Call& c, Random&) { return in_block(named(c, "function", "arguments")); }},
      {"JSON for the call",
       [](const Call& c, Random&) { return in_block("[" + named(c, "name", "arguments") + "]"); }},
      {"JSON for the call, as OpenAI has it",
       [](const Call& c, Random&) {
         return in_block("[{\"id\": \"call_1\", \"type\": \"function\", \"function\": {\"name\": \"" +
                         c.meant.name + "\", \"arguments\": " + quote_python_json(arguments_of(c)) + "}}]");
       }},
      {"JSON for the call, as OpenAI has it",
       [](const Call& c, Random&) {
         return in_block("{\"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"" +
                         c.meant.name + "\", \"arguments\": " + arguments_of(c) + "}}]}");
       }},
      {"JSON for the call, as Anthropic has it",
       [](const Call& c, Random&) {
         return in_block("{\"type\": \"tool_use\", \"id\": \"toolu_1\", \"name\": \"" + c.meant.name +
                         "\", \"input\": " + arguments_of(c) + "}");
       }},
      {"JSON for the call, as Hermes has it",
       [](const Call& c, Random&) {
         return in_block("<tool_call>\n" + named(c, "name", "arguments") + "\n</tool_call>");
       }},
      {"JSON for the call, as Hermes has it",
       [](const Call& c, Random&) {
         return "\n\n<｜DSML｜tool_call>\n" + named(c, "name", "arguments") + "\n</｜DSML｜tool_call>";
       }},
      {"JSON for the call, in a fence",
       [](const Call& c, Random&) {
         return in_block("```json\n" + named(c, "name", "arguments") + "\n```");
       }},
      {"JSON for the call, single quotes",
       [](const Call& c, Random&) {
         const bool quotes = arguments_of(c).find_first_of("'\\") != std::string::npos;
         return quotes ? "" : in_block(replaced(named(c, "name", "arguments"), "\"", "'"));
       }},
      {"JSON for the call, without the last bracket",
       [](const Call& c, Random&) {
         const std::string json = named(c, "name", "arguments");
         return in_block(json.substr(0, json.size() - 1));
       }},
      {"JSON for the call, without the last bracket of a list",
       [](const Call& c, Random&) { return in_block("[" + named(c, "name", "arguments")); }},
      {"JSON for the call, without an inner bracket",
       [](const Call& c, Random&) {
         std::string json = "[" + named(c, "name", "arguments") + "]";
         return in_block(json.erase(json.size() - 2, 1));
       }},
      {"swapped closing tags",
       [](const Call& c, Random&) {
         return swapped_closers(c, "</｜DSML｜invoke>\n</｜DSML｜parameter>\n</｜DSML｜tool_calls>");
       }},
      {"swapped closing tags",
       [](const Call& c, Random&) {
         return swapped_closers(c, "</｜DSML｜parameter>\n</｜DSML｜tool_calls>\n</｜DSML｜invoke>");
       }},
      {"swapped closing tags",
       [](const Call& c, Random&) {
         return swapped_closers(c, "</｜DSML｜tool_calls>\n</｜DSML｜invoke>\n</｜DSML｜parameter>");
       }},
      {"ended in the closing tags",
       [](const Call& c, Random& random) {
         const char* const ends[] = {"</｜DSML｜parameter>\n",
                                     "</｜DSML｜parameter>\n</",
                                     "</｜DSML｜parameter>\n</｜DSML｜inv",
                                     "</｜DSML｜parameter",
                                     "</｜DSML｜par",
                                     "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜"};
         return swapped_closers(c, ends[random() % std::size(ends)]);
       }},
      {"ended in a value",
       [](const Call& c, Random&) {
         std::string text = swapped_closers(c, "");
         if (c.parameters.empty() || !c.parameters.back().is_string) return std::string();
         return text.substr(0, text.size() - (c.parameters.back().text.size() + 1) / 2);
       },
       false},
      {"tags named as tool and parameters",
       [](const Call& c, Random&) {
         std::string body;
         for (const Parameter& p : c.parameters)
           body += "<｜DSML｜" + p.key + ">" + p.text + "</｜DSML｜" + p.key + ">\n";
         const bool is_word = c.meant.name.find('-') == std::string::npos;
         return is_word
                    ? in_block("<｜DSML｜" + c.meant.name + ">\n" + body + "</｜DSML｜" + c.meant.name + ">")
                    : "";
       }},
      {"tags named as the parameters",
       [](const Call& c, Random&) {
         std::string body;
         for (const Parameter& p : c.parameters)
           body += "<｜DSML｜" + p.key + ">" + p.text + "</｜DSML｜" + p.key + ">\n";
         return in_invoke(c, body);
       }},
      {"value attribute",
       [](const Call& c, Random& random) {
         std::string body;
         for (const Parameter& p : c.parameters) {
           if (p.text.find_first_of("\"<>\n&\\") != std::string::npos) return std::string();
           const bool is_empty = random() % 2 == 0;
           body += "<｜DSML｜parameter name=\"" + p.key + "\" value=\"" + p.text + "\"" +
                   (is_empty ? "/>\n" : "></｜DSML｜parameter>\n");
         }
         return body.empty() ? "" : in_invoke(c, body);
       }},
      {"parameters as attributes",
       [](const Call& c, Random&) {
         std::string attributes;
         for (const Parameter& p : c.parameters) {
           if (p.text.find_first_of("\"<>\n&\\") != std::string::npos || p.key == "name")
             return std::string();
           attributes += " " + p.key + "=\"" + p.text + "\"";
         }
         return attributes.empty()
                    ? ""
                    : in_block("<｜DSML｜invoke name=\"" + c.meant.name + "\"" + attributes + "/>");
       }},
      {"a parameter twice, the same",
       [](const Call& c, Random&) {
         Call twice = c;
         if (!c.parameters.empty()) twice.parameters.push_back(c.parameters.front());
         return joined(block_of({twice}));
       }},
      {"a parameter twice, another value",
       [](const Call& c, Random&) {
         if (c.parameters.empty()) return std::string();
         Call twice = c;
         twice.parameters.push_back(c.parameters.front());
         twice.parameters.back().text += "1";
         return joined(block_of({twice}));
       },
       false},
      {"a required parameter missing",
       [](const Call& c, Random&) {
         if (!has_required(c)) return std::string();
         Call less = c;
         less.parameters.erase(less.parameters.begin());
         return joined(block_of({less}));
       },
       false},
      {"no parameters at all",
       [](const Call& c, Random&) { return has_required(c) ? in_invoke(c, "") : std::string(); }, false},
      {"bare body",
       [](const Call& c, Random&) {
         return c.parameters.empty() ? "" : in_invoke(c, c.parameters.front().text);
       },
       false},
      {"unknown parameter and damage",
       [](const Call& c, Random&) {
         Call more = c;
         more.parameters.push_back({"zone", "north", true, nullptr});
         return replaced(joined(block_of({more})), "</｜DSML｜invoke>", "");
       },
       false},
      {"a misspelt key of a required parameter",
       [](const Call& c, Random&) {
         if (!has_required(c)) return std::string();
         Call other = c;
         other.parameters.front().key += "_x";
         return joined(block_of({other}));
       },
       false},
      {"text after the value",
       [](const Call& c, Random&) {
         return c.parameters.empty()
                    ? ""
                    : swapped_closers(c,
                                      "</｜DSML｜parameter>\nand more\n</｜DSML｜parameter>\n"
                                      "</｜DSML｜invoke>\n</｜DSML｜tool_calls>");
       },
       false},
      {"calls as JSON objects, one of no tool",
       [](const Call& c, Random&) {
         return in_block(named(c, "name", "arguments") +
                         "\n{\"name\": \"launch_rocket\", \"arguments\": {}}");
       },
       false},
      {"text before the parameters",
       [](const Call& c, Random&) {
         const std::string block = joined(block_of({c}));
         return c.parameters.empty()
                    ? ""
                    : replaced(block, "\">\n<｜DSML｜parameter", "\">\nNow the call.\n<｜DSML｜parameter");
       }},
      {"role token between tags",
       [](const Call& c, Random&) {
         std::vector<Piece> pieces = block_of({c});
         replace_in_tags(pieces, "\">\n", "\">\n<｜Assistant｜>", nullptr);
         return joined(pieces);
       }},
      {"code fence around the block",
       [](const Call& c, Random&) {
         std::string block = joined(block_of({c}));
         return "Now.\n```xml\n" + block.substr(2) + "\n```\n";
       }},
  };
  for (const char* wrapper : {"arguments", "input", "parameters", "params", "args", "kwargs", "tool_input"}) {
    const std::string key = wrapper;
    shapes.push_back({"arguments wrapped", [key](const Call& c, Random&) {
                        return is_declared(c, key) || c.parameters.empty()
                                   ? ""
                                   : in_parameter(c, key, arguments_of(c));
                      }});
    shapes.push_back({"arguments wrapped in JSON", [key](const Call& c, Random&) {
                        return is_declared(c, key) || c.parameters.empty()
                                   ? ""
                                   : in_invoke(c, "{\"" + key + "\": " + arguments_of(c) + "}");
                      }});
  }
  for (const char* quote : {"'", "`"}) {
    const std::string mark = quote;
    shapes.push_back({"value attribute in other quotes", [mark](const Call& c, Random&) {
                        std::string body;
                        for (const Parameter& p : c.parameters) {
                          if (p.text.find_first_of("'\"`<>\n&\\") != std::string::npos) return std::string();
                          body += "<｜DSML｜parameter name=" + mark + p.key + mark + " value=" + mark +
                                  p.text + mark + "></｜DSML｜parameter>\n";
                        }
                        return body.empty() ? "" : in_invoke(c, body);
                      }});
  }
  return shapes;
}

class Cases {
 public:
  Cases(std::uint32_t seed, int rounds) : random_(seed), rounds_(rounds) {}

  std::vector<DamagedCalls> run() {
    for (const TagDamage& damage : kTagDamages) add_tag_damage(damage);
    for (const ValueDamage& damage : value_damages()) add_value_damage(damage);
    for (const ShapeDamage& damage : shape_damages()) add_shape(damage);
    return std::move(cases_);
  }

 private:
  std::vector<Call> draw() {
    std::vector<Call> calls = {drawn_call(random_)};
    if (random_() % 4 == 0) calls.push_back(drawn_call(random_));
    return calls;
  }

  void add(const char* kind, std::string text, const std::vector<Call>& calls, bool is_clear) {
    DamagedCalls made{
        .kind = kind, .text = "One moment." + std::move(text), .meant = {}, .is_clear = is_clear};
    for (const Call& call : calls) made.meant.push_back(call.meant);
    cases_.push_back(std::move(made));
  }

  /// Without its closing tag and that one's newline, such a value reads as one without a newline of its own:
  /// a limit of the reader.
  static bool ends_its_only_line(const Call& call) {
    return std::ranges::any_of(call.parameters, [](const Parameter& parameter) {
      return parameter.text.find('\n') == parameter.text.size() - 1;
    });
  }

  void add_tag_damage(const TagDamage& damage) {
    const std::string_view from = damage.from;
    const bool takes_newlines = from.ends_with("parameter>\n") && std::string_view(damage.to).empty();
    for (int i = 0; i < rounds_; ++i) {
      const std::vector<Call> calls = draw();
      if (takes_newlines && std::ranges::any_of(calls, ends_its_only_line)) continue;
      std::vector<Piece> pieces = block_of(calls);
      const std::string sound = joined(pieces);
      replace_in_tags(pieces, damage.from, damage.to, i % 2 == 0 ? nullptr : &random_);
      const std::string text = joined(pieces);
      if (text != sound) add(damage.kind, text, calls, damage.is_clear);
    }
  }

  void add_value_damage(const ValueDamage& damage) {
    for (int i = 0, num_made = 0; i < 60 * rounds_ && num_made < 2 * rounds_; ++i) {
      std::vector<Call> calls = {drawn_call(random_)};
      if (calls[0].parameters.empty()) continue;
      Parameter& parameter = calls[0].parameters[random_() % calls[0].parameters.size()];
      const std::string before = parameter.text;
      const bool was_string = parameter.is_string;
      if (!damage.apply(parameter, random_)) continue;
      if (parameter.text == before && parameter.is_string == was_string) continue;
      add(damage.kind, joined(block_of(calls)), calls, damage.is_clear);
      ++num_made;
    }
  }

  void add_shape(const ShapeDamage& damage) {
    for (int i = 0, num_made = 0; i < 60 * rounds_ && num_made < 2 * rounds_; ++i) {
      const Call call = drawn_call(random_);
      const std::string text = damage.text(call, random_);
      if (text.empty()) continue;
      add(damage.kind, text, {call}, damage.is_clear);
      ++num_made;
    }
  }

  Random random_;
  int rounds_;
  std::vector<DamagedCalls> cases_;
};

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

std::vector<DamagedCalls> damaged_calls(std::uint32_t seed, int rounds) { return Cases(seed, rounds).run(); }

}  // namespace baleen::test
