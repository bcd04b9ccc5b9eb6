/// The markup of a reply, read with tolerance: the special strings of the format and the tags of tool calls, also
/// where the model wrote a tag almost right.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace baleen {

/// A stretch of a reply: text, or one piece of markup.
struct Markup {
  enum class Kind {
    kText,
    kThink,
    kEndThink,
    kEos,
    kCalls,      ///< `<｜DSML｜tool_calls>` or its closing tag
    kInvoke,     ///< `<｜DSML｜invoke name="NAME">` or its closing tag
    kParameter,  ///< `<｜DSML｜parameter name="KEY" string="true|false">` or its closing tag
    kOther,  ///< markup without a meaning in a reply: role and task tokens, BOS, `｜DSML｜` with anything else
    kCut,  ///< the reply ended inside markup
  };
  Kind kind = Kind::kText;
  std::string raw;  ///< as the model wrote it
  bool is_closing = false;
  bool is_empty = false;  ///< ended by `/>`: opens and closes
  bool is_ended = true;   ///< false: the tag's `>` is missing
  std::optional<std::string> name;
  std::optional<bool> is_string;

  [[nodiscard]] bool opens(Kind tag) const { return kind == tag && !is_closing; }
  [[nodiscard]] bool closes(Kind tag) const { return kind == tag && is_closing; }
};

/// What `text` begins with.
struct MarkupMatch {
  enum class Verdict { kNone, kUnfinished, kFound };
  Verdict verdict = Verdict::kNone;
  Markup markup;  ///< when found; `raw` is its text
};

/// The longest tag; what does not end within that is cut there.
inline constexpr std::size_t kMaxTagBytes = 1024;

/// Judges the beginning of `text`, whole characters of valid UTF-8. kUnfinished: more text decides, at most
/// `kMaxTagBytes`; never when `is_final`. A tag of tool calls may have: the bars missing on one side or in ASCII, no
/// `<`, spaces between its parts, attributes in any order, other quotation marks or none, no `>`.
[[nodiscard]] MarkupMatch match_markup(std::string_view text, bool is_final);

/// Whether markup may begin with this byte: a quick test before `match_markup`.
[[nodiscard]] inline bool may_begin_markup(char c) {
  return c == '<' || c == '/' || c == '|' || c == '\xEF';  // the last begins U+FF5C
}

/// The strings that must not come out of a reply as text.
[[nodiscard]] std::span<const std::string_view> special_strings();

}  // namespace baleen
