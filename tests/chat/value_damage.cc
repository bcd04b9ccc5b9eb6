#include "value_damage.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace baleen::test {
namespace {

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

}  // namespace

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

}  // namespace baleen::test
