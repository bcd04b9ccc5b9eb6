#include "chat/markup.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "chat/format.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

using namespace chat_format;
using Kind = Markup::Kind;

struct Special {
  std::string_view text;
  Kind kind;
};

constexpr Special kSpecials[] = {
    {kThink, Kind::kThink},
    {kEndThink, Kind::kEndThink},
    {kEos, Kind::kEos},
    {kBos, Kind::kOther},
    {kUser, Kind::kOther},
    {kAssistant, Kind::kOther},
    {kReminder, Kind::kOther},
    {kTasks[0].token, Kind::kOther},
    {kTasks[1].token, Kind::kOther},
    {kTasks[2].token, Kind::kOther},
    {kTasks[3].token, Kind::kOther},
    {kTasks[4].token, Kind::kOther},
    {kTasks[5].token, Kind::kOther},
};

struct TagName {
  std::string_view text;
  Kind kind;
};

/// The model's predecessor called the block function_calls.
constexpr TagName kTagNames[] = {{"tool_calls", Kind::kCalls},
                                 {"function_calls", Kind::kCalls},
                                 {"invoke", Kind::kInvoke},
                                 {"parameter", Kind::kParameter}};

constexpr std::string_view kWideBar = "｜";
constexpr std::string_view kDoubleQuotes[] = {"\"", "“", "”", "„", "＂"};
constexpr std::string_view kSingleQuotes[] = {"'", "‘", "’", "`"};

bool is_space(char c) { return kWhiteSpace.find(c) != std::string_view::npos; }

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// The quotation mark that `text` begins with, empty for none.
std::string_view leading_quote(std::string_view text, std::span<const std::string_view> quotes) {
  const auto found =
      std::ranges::find_if(quotes, [text](std::string_view quote) { return text.starts_with(quote); });
  return found == quotes.end() ? std::string_view() : *found;
}

std::string_view leading_quote(std::string_view text) {
  const std::string_view quote = leading_quote(text, kDoubleQuotes);
  return quote.empty() ? leading_quote(text, kSingleQuotes) : quote;
}

/// Reads from left to right and notes when it would have needed to see beyond the end of the text.
class TagReader {
 public:
  explicit TagReader(std::string_view text) : text_(text) {}

  [[nodiscard]] bool ran_out() const { return ran_out_; }
  [[nodiscard]] std::size_t at() const { return at_; }

  std::optional<Markup> special() {
    for (const Special& special : kSpecials) {
      if (take(special.text)) return Markup{special.kind};
    }
    return std::nullopt;
  }

  std::optional<Markup> tag() {
    at_ = 0;
    Markup tag;
    const bool has_angle = take("<");
    if (has_angle) skip_spaces();
    tag.is_closing = take("/");
    skip_spaces();
    const std::string_view bar = take_bar();
    if ((!has_angle && bar.empty()) || !take("DSML")) return std::nullopt;
    const std::string_view second_bar = take_bar();
    if (bar.empty() && second_bar.empty()) return std::nullopt;
    const std::size_t after_marker = at_;
    skip_spaces();
    tag.is_closing |= take("/");
    for (const TagName& name : kTagNames) {
      if (!take(name.text)) continue;
      if (at_ == text_.size()) ran_out_ = true;
      if (at_ < text_.size() && is_word(text_[at_])) break;
      tag.kind = name.kind;
      read_attributes(tag);
      return tag;
    }
    // The marker alone is a token that is never ordinary text; in ASCII it may be.
    if (bar != kWideBar || second_bar != kWideBar) return std::nullopt;
    tag.kind = Kind::kOther;
    at_ = after_marker;
    if (has_angle) skip_rest_of_tag();
    return tag;
  }

 private:
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }

  bool take(std::string_view word) {
    if (rest().starts_with(word)) return at_ += word.size(), true;
    if (word.starts_with(rest())) ran_out_ = true;
    return false;
  }

  std::string_view take_bar() {
    for (const std::string_view bar : {kWideBar, std::string_view("|")}) {
      if (take(bar)) return bar;
    }
    return {};
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    if (at_ == text_.size()) ran_out_ = true;
  }

  void skip_space_and_lines() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    if (at_ == text_.size()) ran_out_ = true;
  }

  /// Up to a `>` on this line, if there is one before the next tag.
  void skip_rest_of_tag() {
    const std::size_t end = text_.find_first_of("<>\n", at_);
    if (end == std::string_view::npos) {
      ran_out_ = true;
    } else if (text_[end] == '>') {
      at_ = end + 1;
    }
  }

  /// Up to and over the `>`, or to where the attributes end.
  void read_attributes(Markup& tag) {
    while (true) {
      const std::size_t before = at_;
      skip_space_and_lines();
      if (take(">")) return;
      if (take("/>")) {
        tag.is_empty = !tag.is_closing;
        return;
      }
      const bool is_name = take("name");
      if ((!is_name && !take("string")) || !take_equals()) {
        at_ = before;
        tag.is_ended = false;
        return;
      }
      if (is_name) {
        tag.name = read_name();
      } else {
        tag.is_string = read_flag();
      }
    }
  }

  bool take_equals() {
    skip_spaces();
    if (!take("=") && !take(":")) return false;
    skip_spaces();
    return true;
  }

  void skip_quote() {
    take("\\");
    at_ += leading_quote(rest()).size();
    if (at_ == text_.size()) ran_out_ = true;
  }

  std::optional<bool> read_flag() {
    skip_quote();
    std::string word;
    while (at_ < text_.size() && is_word(text_[at_])) word += static_cast<char>(text_[at_++] | 0x20);
    if (at_ == text_.size()) ran_out_ = true;
    skip_quote();
    if (word == "true") return true;
    if (word == "false") return false;
    return std::nullopt;
  }

  std::string read_name() {
    const bool is_escaped = take("\\");
    const std::string_view opening = leading_quote(rest());
    at_ += opening.size();
    std::string_view name = opening.empty() ? unquoted_name() : quoted_name(opening);
    // A lost quotation mark makes the next attribute look like a part of this one.
    if (const std::size_t next = name.find(" string="); next != std::string_view::npos) {
      name = without_trailing_quote(name.substr(0, next));
      at_ = static_cast<std::size_t>(name.data() - text_.data()) + next;
    }
    if (is_escaped && name.ends_with('\\')) name.remove_suffix(1);
    return std::string(name);
  }

  static std::string_view without_trailing_quote(std::string_view name) {
    for (const std::span<const std::string_view> quotes :
         {std::span<const std::string_view>(kDoubleQuotes),
          std::span<const std::string_view>(kSingleQuotes)}) {
      for (const std::string_view quote : quotes) {
        if (name.ends_with(quote)) return name.substr(0, name.size() - quote.size());
      }
    }
    return name;
  }

  std::string_view unquoted_name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && !is_space(text_[at_]) && text_[at_] != '>' && text_[at_] != '<' &&
           text_[at_] != '/' && leading_quote(rest()).empty()) {
      ++at_;
    }
    const std::string_view name = text_.substr(begin, at_ - begin);
    skip_quote();
    return name;
  }

  /// Up to the first fitting mark after which an attribute can end. Without one on the line: up to the first `>`,
  /// else up to the end of the line or the next tag.
  std::string_view quoted_name(std::string_view opening) {
    const bool is_double = std::ranges::find(kDoubleQuotes, opening) != std::end(kDoubleQuotes);
    const std::size_t begin = at_;
    std::size_t angle = std::string_view::npos;
    for (; at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '<'; ++at_) {
      if (text_[at_] == '>' && angle == std::string_view::npos) angle = at_;
      const std::string_view quote =
          is_double ? leading_quote(rest(), kDoubleQuotes) : leading_quote(rest(), kSingleQuotes);
      if (!quote.empty() && ends_attribute(rest().substr(quote.size()))) {
        const std::string_view name = text_.substr(begin, at_ - begin);
        at_ += quote.size();
        return name;
      }
    }
    if (at_ == text_.size()) ran_out_ = true;
    if (angle != std::string_view::npos) at_ = angle;
    return without_trailing_quote(text_.substr(begin, at_ - begin));
  }

  bool ends_attribute(std::string_view after) {
    static constexpr std::string_view kNext[] = {">", "/>", "string", "name", "\n", "<"};
    after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
    for (const std::string_view next : kNext) {
      if (after.starts_with(next)) return true;
      if (next.starts_with(after)) ran_out_ = true;
    }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool ran_out_ = false;
};

}  // namespace

MarkupMatch match_markup(std::string_view text, bool is_final) {
  if (text.size() >= kMaxTagBytes) {
    text = text.substr(0, kMaxTagBytes);
    text.remove_suffix(unfinished_utf8(text));
    is_final = true;
  }
  TagReader reader(text);
  std::optional<Markup> markup = reader.special();
  if (!markup) {
    markup = reader.tag();
    if (reader.ran_out() && !is_final) return {MarkupMatch::Verdict::kUnfinished, {}};
  }
  if (!markup) return {};
  markup->raw = text.substr(0, reader.at());
  return {MarkupMatch::Verdict::kFound, *std::move(markup)};
}

std::span<const std::string_view> special_strings() {
  static constexpr std::string_view kMarkers[] = {kDsml, "|DSML|tool_calls", "|DSML|function_calls",
                                                  "|DSML|invoke", "|DSML|parameter"};
  static constexpr auto kStrings = [] {
    std::array<std::string_view, std::size(kSpecials) + std::size(kMarkers)> strings;
    std::ranges::copy(kMarkers, std::ranges::transform(kSpecials, strings.begin(), &Special::text).out);
    return strings;
  }();
  return kStrings;
}

}  // namespace baleen
