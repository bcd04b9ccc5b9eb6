#include "chat/tag.h"

#include <algorithm>
#include <span>

#include "base/utf8.h"
#include "chat/attributes.h"
#include "chat/special_strings.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

using MarkupKind = Markup::Kind;

struct TagName {
  std::string_view text;
  MarkupKind kind;
};

/// The model's predecessor called the block function_calls.
constexpr TagName kTagNames[] = {
    {"tool_calls", MarkupKind::kCalls},    {"function_calls", MarkupKind::kCalls},
    {"invoke", MarkupKind::kInvoke},       {"call", MarkupKind::kInvoke},
    {"parameter", MarkupKind::kParameter}, {"param", MarkupKind::kParameter},
    {"argument", MarkupKind::kParameter},  {"arg", MarkupKind::kParameter}};

MarkupKind kind_named(std::string_view word) {
  const auto* found = std::ranges::find(kTagNames, lower_case(word), &TagName::text);
  return found == std::end(kTagNames) ? MarkupKind::kNamed : found->kind;
}

bool is_exact_name(std::string_view word) {
  return word == "tool_calls" || word == "invoke" || word == "parameter";
}

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(" \t", at), text.size());
}

bool take(std::string_view text, std::size_t& at, std::string_view word) {
  if (!text.substr(at).starts_with(word)) return false;
  at += word.size();
  return true;
}

bool take_bar(std::string_view text, std::size_t& at) { return take(text, at, "｜") || take(text, at, "|"); }

/// The beginning of a look-alike, up to its name: `<`, a slash, `DSML` between bars or not.
struct LookAlikeHead {
  bool has_angle = false, is_closing = false, has_marker = false;
  int num_bars = 0;
};

LookAlikeHead read_head(std::string_view text, std::size_t& at) {
  LookAlikeHead head;
  head.has_angle = take(text, at, "<");
  at = skip_blanks(text, at);
  head.is_closing = take(text, at, "/");
  at = skip_blanks(text, at);
  head.num_bars += take_bar(text, at) ? 1 : 0;
  head.has_marker = take(text, at, "DSML");
  head.num_bars += take_bar(text, at) ? 1 : 0;
  at = skip_blanks(text, at);
  head.is_closing |= take(text, at, "/");
  return head;
}

/// `</`, the marker or what is left of it, and a tag's name at the end.
bool ends_with_tag_name(std::string_view closer) {
  static constexpr std::size_t kMaxBytes = 48;
  if (!closer.starts_with("</") || !closer.ends_with('>') || closer.size() > kMaxBytes) return false;
  const std::string_view inside = closer.substr(2, closer.size() - 3);
  if (inside.find_first_of(kWhiteSpace) != std::string_view::npos) return false;
  std::size_t begin = inside.size();
  while (begin > 0 && !leading_word(inside.substr(begin - 1, 1)).empty()) --begin;
  return kind_named(inside.substr(begin)) != MarkupKind::kNamed;
}

}  // namespace

Markup read_tag(std::string_view text, bool is_closing, std::size_t& num_bytes) {
  text = text.substr(0, kMaxTagBytes);
  text.remove_suffix(unfinished_utf8(text));
  Markup tag{.kind = MarkupKind::kStray, .is_closing = is_closing};
  std::size_t at = skip_blanks(text, 0);
  const bool has_late_slash = take(text, at, "/");
  tag.is_closing |= has_late_slash;
  const std::string_view word = leading_word(text.substr(at));
  num_bytes = 0;
  if (word.empty()) {
    tag.is_exact = false;
    return tag;
  }
  tag.kind = kind_named(word);
  tag.tag_name = word;
  tag.is_exact = at == 0 && is_exact_name(word);
  at += word.size();
  read_attributes(text, at, tag);
  num_bytes = at;
  return tag;
}

std::optional<Markup> read_look_alike(std::string_view text, std::size_t& num_bytes) {
  text = text.substr(0, kMaxTagBytes);
  std::size_t at = 0;
  const LookAlikeHead head = read_head(text, at);
  if (!head.has_angle && (!head.has_marker || head.num_bars == 0)) return std::nullopt;
  if (!head.has_marker && head.num_bars > 0) return std::nullopt;
  const std::string_view word = leading_word(text.substr(at));
  Markup tag{
      .kind = kind_named(word), .is_closing = head.is_closing, .is_exact = false, .is_look_alike = true};
  if (word.empty() || tag.kind == MarkupKind::kNamed) return std::nullopt;
  tag.tag_name = word;
  at += word.size();
  read_attributes(text, at, tag);
  if (!tag.is_ended && !tag.is_closing) return std::nullopt;
  if (!tag.is_closing && tag.kind != MarkupKind::kCalls && !tag.name) return std::nullopt;
  num_bytes = at;
  return tag;
}

std::string_view without_look_alike_closers(std::string_view value, std::string_view key) {
  while (true) {
    const std::string_view rest = value.substr(0, value.find_last_not_of(kWhiteSpace) + 1);
    const std::size_t begin = rest.rfind('<');
    if (begin == std::string_view::npos || rest.size() - begin > kMaxTagBytes) return value;
    const std::string_view closer = rest.substr(begin);
    std::size_t num_bytes = 0;
    const std::optional<Markup> tag = read_look_alike(closer, num_bytes);
    const bool closes = tag && tag->is_closing && num_bytes == closer.size();
    const bool names_key = !key.empty() && closer == "</" + std::string(key) + ">";
    if (!closes && !names_key && !ends_with_tag_name(closer)) return value;
    value = value.substr(0, begin);
  }
}

std::string without_markup(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t num_bytes = 0;
    const bool may_begin = text[at] == '<' || text[at] == '|' || text[at] == '\xEF';
    if (may_begin && read_look_alike(text.substr(at), num_bytes)) {
      result += ' ';
      at += num_bytes;
    } else {
      result += text[at++];
    }
  }
  return without_specials(result);
}

}  // namespace baleen
