#include "chat/written_arguments.h"

#include <algorithm>

#include "chat/argument_types.h"
#include "chat/attributes.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

using Pairs = std::vector<std::pair<std::string_view, std::string_view>>;

void skip_space(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
}

/// Elements and nothing else; pairs of a key and a value become one.
std::optional<Pairs> elements_of(std::string_view body) {
  static constexpr std::string_view kKey = "arg_key", kValue = "arg_value";
  Pairs pairs;
  for (skip_space(body); !body.empty(); skip_space(body)) {
    auto element = take_element(body);
    if (element && element->first == kKey) {
      const std::string_view key = trimmed(element->second);
      skip_space(body);
      element = take_element(body);
      if (!element || element->first != kValue) return std::nullopt;
      element->first = key;
    }
    if (!element) return std::nullopt;
    pairs.push_back(*element);
  }
  return pairs;
}

/// YAML reads otherwise what begins like this, or has a comment.
bool may_be_plain(std::string_view value) {
  static constexpr std::string_view kMarks = "\"'|>&*!#%@`?-,";
  return !value.empty() && kMarks.find(value.front()) == std::string_view::npos &&
         value.find(" #") == std::string_view::npos;
}

/// Lines and nothing else.
std::optional<Pairs> lines_of(std::string_view body) {
  if (body.starts_with('\n')) body.remove_prefix(1);
  if (body.ends_with('\n')) body.remove_suffix(1);
  if (body.ends_with('\n')) return std::nullopt;  // of the last value, or of the lines
  Pairs pairs;
  while (!body.empty()) {
    const std::string_view line = body.substr(0, body.find('\n'));
    body.remove_prefix(std::min(line.size() + 1, body.size()));
    const std::string_view key = leading_word(trimmed(line));
    std::string_view rest = trimmed(trimmed(line).substr(key.size()));
    if (key.empty() || (!rest.starts_with(':') && !rest.starts_with('='))) return std::nullopt;
    rest = trimmed(rest.substr(1));
    if (!may_be_plain(rest)) return std::nullopt;
    pairs.emplace_back(key, rest);
  }
  return pairs;
}

}  // namespace

std::optional<std::pair<std::string_view, std::string_view>> take_element(std::string_view& text) {
  if (!text.starts_with('<')) return std::nullopt;
  const std::string_view word = leading_word(text.substr(1));
  const std::size_t begin = word.size() + 2;
  if (word.empty() || begin > text.size() || text[begin - 1] != '>') return std::nullopt;
  const std::string closing = "</" + std::string(word) + ">";
  const std::size_t end = text.find(closing, begin);
  if (end == std::string_view::npos) return std::nullopt;
  const std::pair element{word, text.substr(begin, end - begin)};
  text.remove_prefix(end + closing.size());
  return element;
}

std::optional<RepairedArguments> written_arguments(std::string_view body, const PythonJson& parameters) {
  std::optional<Pairs> pairs = trimmed(body).starts_with('<') ? elements_of(body) : lines_of(body);
  RepairedArguments arguments(parameters);
  if (!pairs || pairs->empty() || !arguments.declares_any()) return std::nullopt;
  for (const auto& [name, value] : *pairs) {
    const std::optional<std::string> key = arguments.key_of(std::string(name));
    if (!key || !arguments.may_follow(*key)) return std::nullopt;
    arguments.add(*key, std::nullopt, value);
  }
  return arguments;
}

}  // namespace baleen
