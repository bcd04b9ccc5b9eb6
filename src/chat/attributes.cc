#include "chat/attributes.h"

#include <algorithm>
#include <optional>
#include <span>

#include "chat/tag.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

constexpr std::string_view kDoubleQuotes[] = {"\"", "“", "”", "„", "＂"};
constexpr std::string_view kSingleQuotes[] = {"'", "‘", "’", "`"};

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

std::string_view without_trailing_quote(std::string_view name) {
  for (const std::span<const std::string_view> quotes :
       {std::span<const std::string_view>(kDoubleQuotes), std::span<const std::string_view>(kSingleQuotes)}) {
    for (const std::string_view quote : quotes) {
      if (name.ends_with(quote)) return name.substr(0, name.size() - quote.size());
    }
  }
  return name;
}

enum class Meaning { kName, kIsString, kType, kUnknown };

Meaning meaning_of(std::string_view attribute) {
  const std::string word = lower_case(attribute);
  if (word == "name" || word == "key") return Meaning::kName;
  if (word == "string" || word == "is_string") return Meaning::kIsString;
  return word == "type" ? Meaning::kType : Meaning::kUnknown;
}

/// Whether the value of `type="..."` is a string, if that is a type.
std::optional<bool> is_string_type(std::string_view type) {
  static constexpr std::string_view kOthers[] = {"number", "integer", "boolean", "object",
                                                 "array",  "json",    "null"};
  const std::string word = lower_case(type);
  if (word == "string") return true;
  if (std::ranges::find(kOthers, word) != std::end(kOthers)) return false;
  return std::nullopt;
}

class AttributeReader {
 public:
  /// `only_known`: attributes that the format does not have end the tag.
  AttributeReader(std::string_view text, std::size_t at, bool only_known)
      : text_(text), at_(at), only_known_(only_known) {}

  /// False: no `>` where one is due; `at()` is then the end of the last attribute.
  bool read(Markup& tag) {
    while (true) {
      const std::size_t before = at_;
      at_ = std::min(text_.find_first_not_of(kWhiteSpace, at_), text_.size());
      if (take(">")) return true;
      if (take("/>")) {
        tag.is_empty = !tag.is_closing;
        return true;
      }
      if (read_one(tag, at_ > before)) continue;
      at_ = before;
      return false;
    }
  }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }

  bool take(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t", at_), text_.size()); }

  /// `is_apart`: white space stands before it.
  bool read_one(Markup& tag, bool is_apart) {
    if (!tag.name && is_apart && !leading_quote(rest()).empty()) {  // <parameter "key" string="true">
      tag.name = read_value();
      tag.is_exact = false;
      return true;
    }
    const std::string_view word = leading_word(rest());
    if (word.empty()) return false;
    at_ += word.size();
    if (!take_equals(tag)) {
      if (tag.name || only_known_ || !is_apart || has_attributes_) return false;
      tag.name = word;  // <invoke get_weather>
      tag.is_exact = false;
      return true;
    }
    has_attributes_ = true;
    return read_meaning(tag, word, is_apart);
  }

  bool read_meaning(Markup& tag, std::string_view word, bool is_apart) {
    tag.is_exact &= word == "name" || word == "string";
    const bool is_quoted = !leading_quote(rest()).empty() || rest().starts_with("\\");
    switch (meaning_of(word)) {
      case Meaning::kName: {
        std::string name = read_value();
        tag.is_doubtful |= tag.name && *tag.name != name;
        tag.name = std::move(name);
        return true;
      }
      case Meaning::kIsString: {
        const std::string flag = read_flag();
        tag.is_exact &= flag == "true" || flag == "false";
        if (flag == "true" || flag == "false") tag.is_string = flag == "true";
        return true;
      }
      case Meaning::kType: {
        const std::optional<bool> is_string = is_string_type(read_flag());
        if (!tag.is_string) tag.is_string = is_string;
        return true;
      }
      case Meaning::kUnknown:
        break;
    }
    if (only_known_ || !is_apart || !is_quoted) return false;
    read_value();
    return true;
  }

  bool take_equals(Markup& tag) {
    const std::size_t before = at_;
    skip_blanks();
    const bool is_equals = take("=");
    if (!is_equals && !take(":")) {
      at_ = before;
      return false;
    }
    skip_blanks();
    tag.is_exact &= is_equals;
    return true;
  }

  /// A word in quotation marks or none; text may follow at once, where the tag's `>` is missing.
  std::string read_flag() {
    take("\\");
    at_ += leading_quote(rest()).size();
    const std::string_view word = leading_word(rest());
    at_ += word.size();
    take("\\");
    at_ += leading_quote(rest()).size();
    return lower_case(word);
  }

  std::string read_value() {
    const bool is_escaped = take("\\");
    const std::string_view opening = leading_quote(rest());
    at_ += opening.size();
    std::string_view value = opening.empty() ? unquoted() : quoted(opening);
    // A lost quotation mark makes the next attribute look like a part of this one.
    for (const std::string_view next : {" string=", " name=", " type="}) {
      const std::size_t begin = value.find(next);
      if (begin == std::string_view::npos) continue;
      at_ = static_cast<std::size_t>(value.data() - text_.data()) + begin;
      value = without_trailing_quote(value.substr(0, begin));
    }
    if (is_escaped && value.ends_with('\\')) value.remove_suffix(1);
    return std::string(value);
  }

  std::string_view unquoted() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && kWhiteSpace.find(text_[at_]) == std::string_view::npos &&
           text_[at_] != '>' && text_[at_] != '<' && text_[at_] != '/' && leading_quote(rest()).empty()) {
      ++at_;
    }
    const std::string_view value = text_.substr(begin, at_ - begin);
    at_ += leading_quote(rest()).size();
    return value;
  }

  /// Up to the first fitting mark after which an attribute can end. Without one on the line: up to the first
  /// `>`, else up to the end of the line or the next tag.
  std::string_view quoted(std::string_view opening) {
    const bool is_double = std::ranges::find(kDoubleQuotes, opening) != std::end(kDoubleQuotes);
    const std::size_t begin = at_;
    std::size_t angle = std::string_view::npos;
    for (; at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '<'; ++at_) {
      if (text_[at_] == '>' && angle == std::string_view::npos) angle = at_;
      const std::string_view quote =
          is_double ? leading_quote(rest(), kDoubleQuotes) : leading_quote(rest(), kSingleQuotes);
      if (!quote.empty() && ends_attribute(rest().substr(quote.size()))) {
        const std::string_view value = text_.substr(begin, at_ - begin);
        at_ += quote.size();
        return value;
      }
    }
    if (angle != std::string_view::npos) at_ = angle;
    return without_trailing_quote(text_.substr(begin, at_ - begin));
  }

  /// Whether the tag or another attribute follows. Where the tag's `>` is missing, so does any text after a
  /// flag; a word alone is that, not an attribute.
  static bool ends_attribute(std::string_view after) {
    after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
    if (after.empty() || after.starts_with(">") || after.starts_with("/>") || after.starts_with("\n") ||
        after.starts_with("<")) {
      return true;
    }
    const std::string_view word = leading_word(after);
    after.remove_prefix(word.size());
    after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
    return !word.empty() && (after.starts_with("=") || after.starts_with(":"));
  }

  std::string_view text_;
  std::size_t at_;
  bool only_known_;
  bool has_attributes_ = false;
};

/// What follows a tag without `>` is its value, unless it looks like more of the tag.
bool may_be_attributes(std::string_view after) {
  after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
  if (!leading_quote(after).empty()) return true;
  const std::string_view word = leading_word(after);
  after.remove_prefix(word.size());
  after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
  return !word.empty() && after.starts_with("=");
}

}  // namespace

void read_attributes(std::string_view text, std::size_t& at, Markup& tag) {
  const Markup before = tag;
  AttributeReader all(text, at, false);
  if (all.read(tag)) {
    at = all.at();
    return;
  }
  tag = before;
  AttributeReader known(text, at, true);
  known.read(tag);
  at = known.at();
  tag.is_ended = tag.is_exact = false;
  tag.is_doubtful |= !tag.is_closing && may_be_attributes(text.substr(at));
}

std::string_view leading_word(std::string_view text) {
  return text.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(text, is_word) - text.begin()));
}

std::string lower_case(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  return lowered;
}

}  // namespace baleen
