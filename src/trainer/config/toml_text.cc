#include "trainer/config/toml_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

/// Goes over the text once, past strings and comments, and counts what nests.
class NestingScan {
 public:
  NestingScan(std::string_view text, std::string_view label) : text_(text), label_(label) {}

  /// Throws `Error` at the first place beyond a bound.
  void check() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      count(c);
      ++at_;
    }
  }

 private:
  void count(char c) {
    if (c == '\n') ++line_;
    if (c == '.' && ++num_dots_ >= kMaxTomlKeyParts)
      fail("{}, line {}: a key of more than {} parts; expected two, [section] and a key of it", label_, line_,
           kMaxTomlKeyParts);
    // A key ends before any of these; the dot of a number is the only one in its piece of the text.
    if (c == '\n' || c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}') num_dots_ = 0;
    if ((c == '[' || c == '{') && ++num_brackets_ > kMaxTomlBrackets)
      fail("{}, line {}: values nested more than {} deep; expected a list of texts or numbers", label_, line_,
           kMaxTomlBrackets);
    if ((c == ']' || c == '}') && num_brackets_ > 0) --num_brackets_;
  }

  /// Past a string; one that does not end is the library's to refuse.
  void skip_string(char quote) {
    const std::string_view rest = text_.substr(at_);
    const bool is_long = rest.size() >= 3 && rest[1] == quote && rest[2] == quote;
    at_ += is_long ? 3 : 1;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n' && !is_long) return;
      if (c == '\n') ++line_;
      if (c == '\\' && quote == '"') {
        ++at_;
        if (at_ < text_.size() && text_[at_] == '\n') ++line_;
        continue;
      }
      if (c != quote) continue;
      if (!is_long) {
        ++at_;
        return;
      }
      if (text_.substr(at_).starts_with(rest.substr(0, 3))) {
        at_ += 3;
        // Up to two quotes may stand before the three that end a long string.
        while (at_ < text_.size() && text_[at_] == quote) ++at_;
        return;
      }
    }
  }

  std::string_view text_, label_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::int64_t num_dots_ = 0;      ///< since the last character that ends a key
  std::int64_t num_brackets_ = 0;  ///< open ones
};

}  // namespace

toml::table parse_toml(std::string_view text, std::string_view label) {
  NestingScan(text, label).check();
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail("{}, line {}, column {}: not TOML: {}", label, error.source().begin.line,
         error.source().begin.column, shortened_text(error.description(), 300));
  }
}

}  // namespace baleen
