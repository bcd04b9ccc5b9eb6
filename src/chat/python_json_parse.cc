#include <clocale>
#include <cstdlib>
#include <optional>
#include <unordered_map>

#include "base/utf8.h"
#include "chat/python_json.h"

namespace baleen {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Correctly rounded whatever the program's locale; overflow gives infinity, underflow zero, as in Python.
double float_value(const std::string& literal) {
  static const locale_t kCLocale = newlocale(LC_ALL_MASK, "C", nullptr);
  return strtod_l(literal.c_str(), nullptr, kCLocale);
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto byte = [&out](std::uint32_t value) { out += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

/// A Python dict: a repeated key keeps its first place and takes the last value.
void resolve_duplicates(PythonJson::Object& members) {
  std::unordered_map<std::string, std::size_t> place;
  std::size_t num_kept = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto [known, is_new] = place.emplace(members[i].name, num_kept);
    if (!is_new) {
      members[known->second].value = std::move(members[i].value);
    } else {
      if (num_kept != i) members[num_kept] = std::move(members[i]);
      ++num_kept;
    }
  }
  members.resize(num_kept);
}

/// Recursive descent; the first failure stops it. A function that returns false has set `failure_`.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<PythonJson> run() {
    if (const auto invalid = find_invalid_utf8(text_)) {
      return failure("byte {}: not valid UTF-8; JSON text must be UTF-8", *invalid);
    }
    PythonJson value;
    skip_space();
    if (!parse_value(value, 0)) return *failure_;
    skip_space();
    if (at_ != text_.size())
      return failure("byte {}: expected the end of the JSON text, found {}", at_, found());
    return value;
  }

 private:
  bool expected(std::string_view what) {
    failure_ = failure("byte {}: expected {}, found {}", at_, what, found());
    return false;
  }

  [[nodiscard]] std::string found() const {
    if (at_ >= text_.size()) return "the end of the text";
    return quote_python_json(text_.substr(at_, next_utf8(text_.substr(at_)).size));
  }

  [[nodiscard]] bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }

  bool parse_value(PythonJson& out, int depth) {
    if (next_is('"')) {
      std::string text;
      if (!parse_string(text)) return false;
      out = PythonJson(std::move(text));
      return true;
    }
    if (next_is('[') || next_is('{')) {
      if (depth == kMaxJsonDepth) {
        failure_ = failure("byte {}: nested deeper than {} levels", at_, kMaxJsonDepth);
        return false;
      }
      return next_is('[') ? parse_array(out, depth + 1) : parse_object(out, depth + 1);
    }
    if (take("null")) return out = PythonJson(), true;
    if (take("true")) return out = PythonJson(true), true;
    if (take("false")) return out = PythonJson(false), true;
    for (const char* name : {"NaN", "Infinity", "-Infinity"}) {
      if (take(name)) return out = PythonJson(PythonJson::Number{name}), true;
    }
    return parse_number(out);
  }

  bool parse_array(PythonJson& out, int depth) {
    PythonJson::Array elements;
    ++at_;
    skip_space();
    if (!take("]")) {
      do {
        skip_space();
        if (!parse_value(elements.emplace_back(), depth)) return false;
        skip_space();
      } while (take(","));
      if (!take("]")) return expected("',' or ']' in an array");
    }
    out = PythonJson(std::move(elements));
    return true;
  }

  bool parse_object(PythonJson& out, int depth) {
    PythonJson::Object members;
    ++at_;
    skip_space();
    if (!take("}")) {
      do {
        skip_space();
        PythonJson::Member& member = members.emplace_back();
        if (!next_is('"')) return expected("a key in double quotes");
        if (!parse_string(member.name)) return false;
        skip_space();
        if (!take(":")) return expected("':' after a key");
        skip_space();
        if (!parse_value(member.value, depth)) return false;
        skip_space();
      } while (take(","));
      if (!take("}")) return expected("',' or '}' in an object");
      resolve_duplicates(members);
    }
    out = PythonJson(std::move(members));
    return true;
  }

  bool parse_number(PythonJson& out) {
    const std::size_t begin = at_;
    take("-");
    if (at_ >= text_.size() || !is_digit(text_[at_])) {
      at_ = begin;
      return expected("a JSON value");
    }
    if (!take("0")) skip_digits();
    bool is_float = false;
    if (next_is('.') && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])) {
      is_float = true;
      ++at_;
      skip_digits();
    }
    if (next_is('e') || next_is('E')) {
      std::size_t digit = at_ + 1;
      if (digit < text_.size() && (text_[digit] == '+' || text_[digit] == '-')) ++digit;
      if (digit < text_.size() && is_digit(text_[digit])) {
        is_float = true;
        at_ = digit;
        skip_digits();
      }
    }
    std::string literal(text_.substr(begin, at_ - begin));
    if (is_float) literal = python_float_text(float_value(literal));
    if (literal == "-0") literal.erase(0, 1);  // Python integers have no negative zero
    out = PythonJson(PythonJson::Number{std::move(literal)});
    return true;
  }

  void skip_digits() {
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  }

  bool parse_string(std::string& out) {
    ++at_;
    while (true) {
      std::size_t end = at_;
      while (end < text_.size() && text_[end] != '"' && text_[end] != '\\' &&
             static_cast<unsigned char>(text_[end]) >= 0x20) {
        ++end;
      }
      out += text_.substr(at_, end - at_);
      at_ = end;
      if (take("\"")) return true;
      if (!take("\\")) return expected("more of a string, with control characters escaped");
      if (!parse_escape(out)) return false;
    }
  }

  /// After the backslash.
  bool parse_escape(std::string& out) {
    static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (at_ < text_.size()) {
      if (const std::size_t i = kLetters.find(text_[at_]); i != std::string_view::npos) {
        out += kMeanings[i];
        ++at_;
        return true;
      }
    }
    const std::size_t begin = at_;
    std::optional<std::uint32_t> code = take_code_unit();
    if (!code) return expected("an escape: one of \" \\ / b f n r t, or u and four hexadecimal digits");
    if (*code >= 0xD800 && *code < 0xE000) {
      const std::optional<std::uint32_t> low = *code < 0xDC00 && take("\\") ? take_code_unit() : std::nullopt;
      if (!low || *low < 0xDC00 || *low > 0xDFFF) {
        failure_ =
            failure("byte {}: half of a surrogate pair, which is no character; write both halves", begin);
        return false;
      }
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
    }
    append_utf8(out, *code);
    return true;
  }

  /// uXXXX; takes nothing when it is not there.
  std::optional<std::uint32_t> take_code_unit() {
    if (!next_is('u') || at_ + 5 > text_.size()) return std::nullopt;
    std::uint32_t code = 0;
    for (const char c : text_.substr(at_ + 1, 4)) {
      const char lower = static_cast<char>(c | 0x20);
      if (is_digit(c)) {
        code = code * 16 + static_cast<std::uint32_t>(c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        code = code * 16 + static_cast<std::uint32_t>(lower - 'a' + 10);
      } else {
        return std::nullopt;
      }
    }
    at_ += 5;
    return code;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace

Result<PythonJson> parse_python_json(std::string_view text) { return Parser(text).run(); }

}  // namespace baleen
