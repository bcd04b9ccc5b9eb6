#include "chat/json_repair.h"

#include <algorithm>

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

/// Recursive descent that writes as it reads; false: unreadable.
class Repairer {
 public:
  explicit Repairer(std::string_view text) : text_(text) {}

  std::optional<std::string> run() {
    if (!value(0)) return std::nullopt;
    while (skip_space(), take("}") || take("]") || take(",")) {
    }
    if (at_ != text_.size() || !read_strict_json(out_)) return std::nullopt;
    return std::move(out_);
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
    if (take(",") || at_end() || rest().starts_with(closing)) return true;
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
      if (take("}") || at_end()) break;
      out_ += separator;
      if (const std::string_view closing = take_quote(); !closing.empty()) {
        if (!string(closing)) return false;
      } else if (!bare_key()) {
        return false;
      }
      skip_space();
      if (!take(":")) return false;
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
      if (take("]") || at_end()) break;
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
    if (take("\"")) return "\"";
    if (take("'")) return "'";
    if (take("“")) return "”";
    if (take("‘")) return "’";
    return {};
  }

  bool string(std::string_view closing) {
    std::string content;
    const auto give = [&] {
      const std::string quoted = quote_python_json(content);
      out_.append(quoted, 1, quoted.size() - 2);
      content.clear();
    };
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
        give();
        out_ += {'\\', next};
        ++at_;
      } else if (next == 'u' && is_hexadecimal(rest().substr(1, 4))) {
        give();
        out_ += '\\';
      } else {
        content += '\\';
      }
    }
    give();
    out_ += '"';
    return true;
  }

  static bool is_hexadecimal(std::string_view digits) {
    return digits.size() == 4 && digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

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

std::optional<std::string> repaired_json(std::string_view text) {
  text = without_code_fence(text);
  if (std::optional<std::string> repaired = Repairer(text).run()) return repaired;
  // {\"k\": 1}: as it stands between the quotation marks of a JSON string.
  if (text.find("\\\"") == std::string_view::npos) return std::nullopt;
  const std::optional<PythonJson> unescaped = read_strict_json("\"" + std::string(text) + "\"");
  if (!unescaped) return std::nullopt;
  return Repairer(*unescaped->as_string()).run();
}

}  // namespace baleen
