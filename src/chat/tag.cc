#include "chat/tag.h"

#include <algorithm>
#include <span>

#include "base/utf8.h"
#include "chat/attributes.h"
#include "chat/special_strings.h"
#include "chat/spellings.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

using MarkupKind = Markup::Kind;

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(" \t", at), text.size());
}

bool take(std::string_view text, std::size_t& at, std::string_view word) {
  if (!text.substr(at).starts_with(word)) return false;
  at += word.size();
  return true;
}

struct TagName {
  std::string_view text;
  MarkupKind kind;
  std::size_t max_slips = 0;  ///< letters that may be off behind the token
  enum class Needs { kNothing, kMarker, kToken } needs = Needs::kNothing;  ///< without it, an ordinary word
};

/// The model's predecessor called the block function_calls.
constexpr TagName kTagNames[] = {
    {"tool_calls", MarkupKind::kCalls, 2},
    {"function_calls", MarkupKind::kCalls, 2},
    {"tool_call", MarkupKind::kCalls},
    {"calls", MarkupKind::kCalls, 0, TagName::Needs::kMarker},
    {"invoke", MarkupKind::kInvoke, 1},
    {"call", MarkupKind::kInvoke},
    {"function_call", MarkupKind::kInvoke, 0, TagName::Needs::kToken},
    {"function", MarkupKind::kInvoke, 0, TagName::Needs::kToken},
    {"tool_use", MarkupKind::kInvoke, 0, TagName::Needs::kToken},
    {"tool", MarkupKind::kInvoke, 0, TagName::Needs::kToken},
    {"parameter", MarkupKind::kParameter, 2},
    {"param", MarkupKind::kParameter},
    {"argument", MarkupKind::kParameter, 1},
    {"arg", MarkupKind::kParameter},
};

/// `has_marker`: the letters DSML stand before it, as the token or not.
MarkupKind kind_named(std::string_view word, bool has_token, bool has_marker = false) {
  const std::string name = lower_case(word);
  const auto is_given = [&](TagName::Needs needs) {
    return needs == TagName::Needs::kNothing || has_token || (needs == TagName::Needs::kMarker && has_marker);
  };
  for (const TagName& tag : kTagNames) {
    if (name == tag.text && is_given(tag.needs)) return tag.kind;
  }
  for (const TagName& tag : kTagNames) {
    if (has_token && tag.max_slips > 0 && is_misspelt(name, tag.text, tag.max_slips)) return tag.kind;
  }
  return MarkupKind::kNamed;
}

/// Of a word like `invokename`: the tag's part. Empty where nothing runs together.
std::string_view tag_in(std::string_view word) {
  const std::string name = lower_case(word);
  for (const TagName& tag : kTagNames) {
    if (name.starts_with(tag.text) && names_call_or_parameter(name.substr(tag.text.size())))
      return word.substr(0, tag.text.size());
  }
  return {};
}

/// A tag as the format writes it, at the beginning of `text`.
std::optional<Markup> exact_tag(std::string_view text, bool is_closing, const CallTags& tags,
                                std::size_t& num_bytes) {
  const TagName exact[] = {{tags.calls, MarkupKind::kCalls},
                           {tags.invoke, MarkupKind::kInvoke},
                           {tags.parameter, MarkupKind::kParameter}};
  const auto* found =
      std::ranges::find_if(exact, [text](const TagName& tag) { return text.starts_with(tag.text); });
  if (found == std::end(exact)) return std::nullopt;
  Markup tag{.kind = found->kind, .tag_name = std::string(trimmed(found->text)), .is_closing = is_closing};
  std::size_t at = found->text.size();
  if (!is_closing && found->kind != MarkupKind::kCalls) {
    if (!take(text, at, " name=\"")) return std::nullopt;
    const std::size_t end = text.find_first_of("\"<\n", at);
    tag.name = text.substr(at, end - at);
    at = std::min(end, text.size());
    if (!take(text, at, "\"")) return std::nullopt;
    if (found->kind == MarkupKind::kParameter) {
      tag.is_string = take(text, at, " string=\"true\"");
      if (!*tag.is_string && !take(text, at, " string=\"false\"")) return std::nullopt;
    }
  }
  if (!take(text, at, ">")) return std::nullopt;
  num_bytes = at;
  return tag;
}

/// Bars, with blanks and backslashes among them.
int take_bars(std::string_view text, std::size_t& at) {
  int num_bars = 0;
  while (true) {
    at = skip_blanks(text, at);
    if (text.substr(at).starts_with("\\|")) ++at;
    if (!take(text, at, "｜") && !take(text, at, "|")) return num_bars;
    ++num_bars;
  }
}

constexpr std::string_view kMarker = "dsml";

bool take_marker(std::string_view text, std::size_t& at) {
  if (lower_case(text.substr(at, kMarker.size())) != kMarker) return false;
  at += kMarker.size();
  return true;
}

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
  head.num_bars += take_bars(text, at);
  head.is_closing |= take(text, at, "/");  // <|/DSML|parameter>
  head.has_marker = take_marker(text, at);
  head.num_bars += take_bars(text, at);
  head.is_closing |= take(text, at, "/");
  return head;
}

/// Of a tag without the token, whose name may be an ordinary word where nothing but a tag makes sense:
/// `<function=run>` and `</function>`.
bool names_itself(std::string_view after, bool is_closing) {
  return after.starts_with(is_closing ? ">" : "=");
}

/// A look-alike up to its name, which `at` is then behind.
std::optional<Markup> look_alike_name(std::string_view text, std::size_t& at, Place place) {
  const LookAlikeHead head = read_head(text, at);
  if (!head.has_angle && (!head.has_marker || head.num_bars == 0)) return std::nullopt;
  if (!head.has_marker && head.num_bars > 0) return std::nullopt;
  const std::string_view word = leading_word(text.substr(at));
  at += word.size();
  const bool takes_words = place == Place::kTagIsDue && names_itself(text.substr(at), head.is_closing);
  const MarkupKind kind = kind_named(word, takes_words, head.has_marker);
  if (kind == MarkupKind::kNamed) return std::nullopt;
  return Markup{.kind = kind,
                .tag_name = std::string(word),
                .is_closing = head.is_closing,
                .is_exact = false,
                .is_look_alike = true};
}

/// `<p>`, `</div>`: a word that is not of this format.
bool begins_another_tag(std::string_view text, Place place) {
  std::size_t at = 0;
  take(text, at, "<");
  take(text, at, "/");
  const std::string_view word = leading_word(text.substr(at));
  const bool takes_words = place == Place::kTagIsDue;
  return !word.empty() && !lower_case(word).starts_with(kMarker) &&
         kind_named(word, takes_words) == MarkupKind::kNamed;
}

/// `</`, the marker or what is left of it, and a tag's name at the end.
bool ends_with_tag_name(std::string_view closer) {
  static constexpr std::size_t kMaxBytes = 48;
  if (!closer.starts_with("</") || !closer.ends_with('>') || closer.size() > kMaxBytes) return false;
  const std::string_view inside = closer.substr(2, closer.size() - 3);
  if (inside.find_first_of(kWhiteSpace) != std::string_view::npos) return false;
  std::size_t begin = inside.size();
  while (begin > 0 && !leading_word(inside.substr(begin - 1, 1)).empty()) --begin;
  return kind_named(inside.substr(begin), false) != MarkupKind::kNamed;
}

}  // namespace

Markup read_tag(std::string_view text, bool is_closing, const CallTags& tags, std::size_t& num_bytes) {
  text = text.substr(0, kMaxTagBytes);
  text.remove_suffix(unfinished_utf8(text));
  if (std::optional<Markup> exact = exact_tag(text, is_closing, tags, num_bytes)) return *std::move(exact);
  Markup tag{.kind = MarkupKind::kStray, .is_closing = is_closing, .is_exact = false};
  const PlainText plain = in_plain_spelling(text);
  const std::string_view all = plain.text;
  std::size_t at = skip_blanks(all, 0);
  const bool has_late_slash = take(all, at, "/");
  tag.is_closing |= has_late_slash;
  std::string_view word = leading_word(all.substr(at));
  num_bytes = 0;
  if (word.empty()) {
    if (tag.is_closing && take(all, at, ">")) num_bytes = plain.places[at];
    return tag;
  }
  tag.kind = kind_named(word, true);
  if (const std::string_view part = tag_in(word); tag.kind == MarkupKind::kNamed && !part.empty()) {
    word = part;
    tag.kind = kind_named(part, true);
  }
  tag.tag_name = word;
  at += word.size();
  read_attributes(text, plain, at, tag);
  num_bytes = plain.places[at];
  tag.has_entities = text.substr(0, num_bytes).find('&') != std::string_view::npos;
  return tag;
}

std::optional<Markup> read_look_alike(std::string_view text, std::size_t& num_bytes, Place place) {
  static constexpr std::size_t kMaxNameBytes = 64;
  std::size_t at = 0;
  // Documents are full of `<`: glances before more of the text is spelled out.
  if (begins_another_tag(text, place)) return std::nullopt;
  if (!look_alike_name(in_plain_spelling(text.substr(0, kMaxNameBytes)).text, at, place)) return std::nullopt;
  const std::string_view written = text.substr(0, kMaxTagBytes);
  const PlainText plain = in_plain_spelling(written);
  at = 0;
  std::optional<Markup> tag = look_alike_name(plain.text, at, place);
  if (!tag) return std::nullopt;
  read_attributes(written, plain, at, *tag);
  if (!tag->is_ended && !tag->is_closing) return std::nullopt;
  if (!tag->is_closing && tag->kind != MarkupKind::kCalls && !tag->name) return std::nullopt;
  num_bytes = plain.places[at];
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

bool may_end_in_tag(std::string_view value) {
  static constexpr std::size_t kMaxBytes = 48;
  const std::size_t begin = value.rfind('<');
  if (begin == std::string_view::npos || value.size() - begin > kMaxBytes) return false;
  const std::string tail = lower_case(value.substr(begin));
  return tail.find(kMarker) != std::string::npos || tail.find("param") != std::string::npos;
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
