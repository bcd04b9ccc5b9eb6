#include "chat/json_repair.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "chat/attributes.h"
#include "chat/spellings.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

bool is_finite(const PythonJson& value) {
  if (const auto* number = value.as_number()) {
    return number->text != "NaN" && number->text != "Infinity" && number->text != "-Infinity";
  }
  if (const auto* array = value.as_array()) return std::ranges::all_of(*array, is_finite);
  if (const auto* object = value.as_object()) {
    return std::ranges::all_of(*object,
                               [](const PythonJson::Member& member) { return is_finite(member.value); });
  }
  return true;
}

bool is_json_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

enum class Brackets : std::uint8_t { kAsTheyAre, kMissingAtTheEnd };

/// Recursive descent that writes as it reads; false: unreadable.
class Repairer {
 public:
  Repairer(std::string_view text, Brackets brackets) : text_(text), brackets_(brackets) {}

  std::optional<PythonJson> run() {
    if (!value(0)) return std::nullopt;
    while (skip_space(), take(",") || take(";") || take(".") ||
                             (brackets_ == Brackets::kMissingAtTheEnd && (take("}") || take("]")))) {
    }
    return at_ == text_.size() ? read_strict_json(out_) : std::nullopt;
  }

 private:
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }

  bool take(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  /// White space and comments.
  void skip_space() {
    while (!at_end()) {
      if (kWhiteSpace.find(text_[at_]) != std::string_view::npos) {
        ++at_;
      } else if (rest().starts_with("//") || rest().starts_with("#")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (const std::size_t end = text_.find("*/", at_);
                 rest().starts_with("/*") && end != std::string_view::npos) {
        at_ = end + 2;
      } else {
        break;
      }
    }
  }

  /// Between members or elements: a comma, or one that is missing before what can only be the next.
  bool next_or_end(char closing) {
    const std::size_t before = at_;
    skip_space();
    if (take(",") || take(";") || at_end() || rest().starts_with(closing)) return true;
    const bool begins_value =
        closing == ']' && std::string_view("{[").find(text_[at_]) != std::string_view::npos;
    return begins_value || (at_ > before && rest().starts_with('"'));
  }

  bool value(int depth) {
    skip_space();
    if (take("{")) return depth < kMaxJsonDepth && members(depth + 1);
    if (take("[")) return depth < kMaxJsonDepth && elements(depth + 1);
    if (const std::string_view closing = take_quote(); !closing.empty()) return string(closing);
    return bare();
  }

  bool members(int depth) {
    out_ += '{';
    for (std::string_view separator;; separator = ", ") {
      skip_space();
      if (take("}")) break;
      if (at_end() && brackets_ == Brackets::kMissingAtTheEnd) break;
      out_ += separator;
      if (const std::string_view closing = take_quote(); !closing.empty()) {
        if (!string(closing)) return false;
      } else if (!bare_key()) {
        return false;
      }
      skip_space();
      if (!take(":") && !take("=>") && !take("=")) return false;
      out_ += ": ";
      if (!value(depth)) return false;
      if (!next_or_end('}')) return false;
    }
    out_ += '}';
    return true;
  }

  bool elements(int depth) {
    out_ += '[';
    for (std::string_view separator;; separator = ", ") {
      skip_space();
      if (take("]")) break;
      if (at_end() && brackets_ == Brackets::kMissingAtTheEnd) break;
      out_ += separator;
      if (!value(depth)) return false;
      if (!next_or_end(']')) return false;
    }
    out_ += ']';
    return true;
  }

  bool bare_key() {
    const std::size_t begin = at_;
    while (!at_end() && is_json_word(text_[at_])) ++at_;
    out_ += quote_python_json(text_.substr(begin, at_ - begin));
    return at_ > begin;
  }

  bool bare() {
    const std::size_t begin = at_;
    while (!at_end() &&
           (is_json_word(text_[at_]) || std::string_view("+-.").find(text_[at_]) != std::string_view::npos)) {
      ++at_;
    }
    std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "True" || word == "TRUE") word = "true";
    if (word == "False" || word == "FALSE") word = "false";
    if (word == "None" || word == "NULL" || word == "Null") word = "null";
    out_ += word;
    return !word.empty();  // whether it is JSON the last check says
  }

  /// Over an opening quotation mark: the one that closes, empty when there is none.
  std::string_view take_quote() {
    if (take(kTripleQuote)) return kTripleQuote;
    if (take("\"")) return "\"";
    if (take("'")) return "'";
    if (take("“")) return "”";
    if (take("‘")) return "’";
    if (take("＂")) return "＂";
    return {};
  }

  /// A backslash before anything that JSON does not escape stands for itself; then so may those before
  /// letters.
  bool string(std::string_view closing) {
    std::string content;
    const auto give = [&] {
      const std::string quoted = quote_python_json(content);
      out_.append(quoted, 1, quoted.size() - 2);
      content.clear();
    };
    bool has_escaped_letters = false, has_bare_backslashes = false;
    out_ += '"';
    while (!take(closing)) {
      if (at_end()) return false;
      if (!take("\\")) {
        content += text_[at_++];
        continue;
      }
      static constexpr std::string_view kEscapes = "\"\\/bfnrt";
      const char next = at_end() ? '\\' : text_[at_];
      if (next == '\'') {
        content += '\'';
        ++at_;
      } else if (kEscapes.find(next) != std::string_view::npos && !at_end()) {
        has_escaped_letters |= next >= 'a';
        give();
        out_ += {'\\', next};
        ++at_;
      } else if (next == 'u' && is_hexadecimal(rest().substr(1, 4))) {
        has_escaped_letters = true;
        give();
        out_ += '\\';
      } else {
        has_bare_backslashes = true;
        content += '\\';
      }
    }
    give();
    out_ += '"';
    return !has_escaped_letters || !has_bare_backslashes;
  }

  static constexpr std::string_view kTripleQuote = "\"\"\"";  ///< Python's mark of a text of several lines

  static bool is_hexadecimal(std::string_view digits) {
    return digits.size() == 4 && digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
  }

  std::string_view text_;
  Brackets brackets_;
  std::size_t at_ = 0;
  std::string out_;
};

/// Commas, colons and brackets outside strings: places beside which a bracket may be missing.
std::vector<std::size_t> structure_of(std::string_view text) {
  std::vector<std::size_t> places;
  char quote = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      at += c == '\\' ? 1 : 0;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (std::string_view("{}[],:").find(c) != std::string_view::npos) {
      places.push_back(at);
    }
  }
  return places;
}

class Readings {
 public:
  void add(std::optional<PythonJson> value) {
    if (!value) return;
    std::string text = dump_python_json(*value);
    if (std::ranges::find(texts_, text) != texts_.end()) return;
    texts_.push_back(std::move(text));
    values_.push_back(*std::move(value));
  }

  /// With one closing bracket more or less, wherever that makes sense; where it never does, one opening
  /// bracket more.
  void add_with_other_brackets(const std::string& text) {
    static constexpr std::size_t kMaxBytes = 16384, kMaxPlaces = 512;
    const std::vector<std::size_t> places = structure_of(text);
    if (text.size() > kMaxBytes || places.size() > kMaxPlaces) return;
    for (const std::size_t at : places) {
      for (const char* bracket : {"}", "]"}) add_if_paired(std::string(text).insert(at, bracket));
      if (text[at] == '}' || text[at] == ']') add_if_paired(std::string(text).erase(at, 1));
    }
    if (!empty()) return;
    for (const char* bracket : {"{", "["}) {
      add_if_paired(bracket + text);
      for (const std::size_t at : places) add_if_paired(std::string(text).insert(at + 1, bracket));
    }
  }

  std::vector<PythonJson> take() { return std::move(values_); }
  [[nodiscard]] bool empty() const { return values_.empty(); }

 private:
  void add_if_paired(const std::string& text) {
    if (has_pairs(text)) add(Repairer(text, Brackets::kAsTheyAre).run());
  }

  /// Whether every bracket outside strings has its partner: a glance before the text is read.
  static bool has_pairs(std::string_view text) {
    std::string open;
    for (const std::size_t at : structure_of(text)) {
      if (text[at] == '{' || text[at] == '[') open += text[at] == '{' ? '}' : ']';
      if (text[at] != '}' && text[at] != ']') continue;
      if (open.empty() || open.back() != text[at]) return false;
      open.pop_back();
    }
    return open.empty();
  }

  std::vector<std::string> texts_;
  std::vector<PythonJson> values_;
};

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// `text` as it stands, or with its quotation marks freed from what escapes them.
std::vector<std::string> unescaped(std::string_view text) {
  std::vector<std::string> texts = {with_plain_syntax(text)};
  if (text.find("\\\"") != std::string_view::npos) {
    texts.push_back(with_plain_syntax(replaced(std::string(text), "\\\"", "\"")));
    // {\"k\": 1}: as it stands between the quotation marks of a JSON string.
    if (const std::optional<PythonJson> inner = read_strict_json("\"" + std::string(text) + "\""))
      texts.push_back(with_plain_syntax(*inner->as_string()));
  }
  return texts;
}

}  // namespace

std::optional<PythonJson> read_strict_json(std::string_view text) {
  Result<PythonJson> value = parse_python_json(text);
  if (!value || !is_finite(value.value())) return std::nullopt;
  return std::move(value).value();
}

std::string_view without_code_fence(std::string_view text) {
  static constexpr std::string_view kFence = "```";
  const std::string_view whole = trimmed(text);
  const std::size_t end_of_line = whole.find('\n');
  if (!whole.starts_with(kFence) || !whole.ends_with(kFence) || end_of_line >= whole.size() - kFence.size())
    return whole;
  const std::string_view language = trimmed(whole.substr(kFence.size(), end_of_line - kFence.size()));
  if (!std::ranges::all_of(language, is_json_word)) return whole;
  return trimmed(whole.substr(end_of_line, whole.size() - kFence.size() - end_of_line));
}

namespace {

/// Without a word in front that says what comes (`json`, `args =`), and marks around all of it: what is left
/// is an object or array, else `text`.
std::string_view bare_structure(std::string_view text) {
  static constexpr std::string_view kWords[] = {"json", "arguments", "args", "parameters", "input", "params"};
  static constexpr std::pair<char, char> kMarks[] = {{'\'', '\''}, {'`', '`'}, {'(', ')'}};
  std::string_view bare = trimmed(text);
  const std::size_t word =
      static_cast<std::size_t>(std::ranges::find_if_not(bare, is_json_word) - bare.begin());
  if (std::ranges::find(kWords, lower_case(bare.substr(0, word))) != std::end(kWords)) {
    bare = trimmed(bare.substr(word));
    if (bare.starts_with(':') || bare.starts_with('=')) bare = trimmed(bare.substr(1));
  }
  for (const auto& [opening, closing] : kMarks) {
    if (bare.size() > 2 && bare.front() == opening && bare.back() == closing)
      bare = trimmed(bare.substr(1, bare.size() - 2));
  }
  return bare.starts_with('{') || bare.starts_with('[') ? bare : text;
}

}  // namespace

std::vector<PythonJson> json_readings(std::string_view text) {
  if (std::optional<PythonJson> value = read_strict_json(text)) return {*std::move(value)};
  text = without_code_fence(text);
  if (std::optional<PythonJson> value = read_strict_json(text)) return {*std::move(value)};
  Readings readings;
  std::vector<std::string> texts = unescaped(text);
  if (const std::string_view bare = bare_structure(text); bare != text)
    std::ranges::move(unescaped(bare), std::back_inserter(texts));
  for (const std::string& one : texts) readings.add(Repairer(one, Brackets::kAsTheyAre).run());
  if (!readings.empty()) return readings.take();
  for (const std::string& one : texts) {
    readings.add(Repairer(one, Brackets::kMissingAtTheEnd).run());
    readings.add_with_other_brackets(one);
  }
  return readings.take();
}

std::optional<std::string> repaired_json(std::string_view text) {
  const std::vector<PythonJson> readings = json_readings(text);
  return readings.size() == 1 ? std::optional(dump_python_json(readings.front())) : std::nullopt;
}

}  // namespace baleen
