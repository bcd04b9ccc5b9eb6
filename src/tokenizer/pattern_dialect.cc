#include "tokenizer/pattern_dialect.h"

#include "base/error.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

/// Unicode's White_Space. PCRE2's own `\s` also has U+180E.
constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
/// PCRE2's own `\w` lacks most of \p{M} and \p{Pc}, and has all of \p{N}.
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Pc})";

}  // namespace

std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view where) {
  std::string result;
  bool in_class = false;
  const auto refuse = [&](std::string_view construct) {
    fail("{}: the pattern {} uses {}, which is not supported; write the set or the alternatives out", where,
         quoted_text(pattern, kMaxShownPatternBytes), construct);
  };
  const auto append_escape = [&](char letter) {
    switch (letter) {
      case 's':
      case 'w': {
        const std::string_view members = letter == 's' ? kSpace : kWord;
        result += in_class ? std::string(members) : fmt::format("[{}]", members);
        break;
      }
      case 'S':
      case 'W':
        if (in_class) refuse(fmt::format("\\{} within a class", letter));
        result += fmt::format("[^{}]", letter == 'S' ? kSpace : kWord);
        break;
      case 'h':
      case 'H':
      case 'b':
      case 'B':
        refuse(fmt::format("\\{}", letter));
        break;
      default:
        result.append({'\\', letter});
    }
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    if (rest[0] == '\\' && rest.size() > 1) {
      append_escape(rest[1]);
      ++i;
      continue;
    }
    if (in_class && rest[0] == '[') refuse("a set within a set");
    if (in_class && rest.starts_with("&&")) refuse("&& within a class");
    result += rest[0];
    if (in_class) {
      in_class = rest[0] != ']';
    } else if (rest[0] == '[') {
      in_class = true;
      // A bracket that closes right after the opening one is a member of the class.
      for (const char member : {'^', ']'}) {
        if (i + 1 < pattern.size() && pattern[i + 1] == member) result += pattern[++i];
      }
    }
  }
  return result;
}

}  // namespace baleen
