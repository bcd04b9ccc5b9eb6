#include "shape_damage.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "tag_damage.h"

namespace baleen::test {
namespace {

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

}  // namespace

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

}  // namespace baleen::test
