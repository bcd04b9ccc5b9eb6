#include "chat/attributes.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "chat/tag.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// What models put between attributes, beside white space.
constexpr std::string_view kSeparators = ",;&|";

bool is_quote(char c) { return c == '"' || c == '\''; }

bool begins_with_quote(std::string_view text) { return !text.empty() && is_quote(text.front()); }

std::string_view without_trailing_quote(std::string_view name) {
  if (!name.empty() && is_quote(name.back())) name.remove_suffix(1);
  return name;
}

/// What an attribute says. A name in earnest, or one that may as well say something else about the call.
enum class Meaning : std::uint8_t { kName, kMaybeName, kIsString, kType, kValue, kUnknown };

struct AttributeName {
  std::string_view text;
  Meaning meaning;
  std::size_t max_slips = 0;
};

constexpr AttributeName kAttributeNames[] = {
    {"name", Meaning::kName, 1},
    {"key", Meaning::kName},
    {"string", Meaning::kIsString, 1},
    {"is_string", Meaning::kIsString, 1},
    {"type", Meaning::kType},
    {"value", Meaning::kValue},
    {"id", Meaning::kMaybeName},
    {"tool", Meaning::kMaybeName},
    {"tool_name", Meaning::kMaybeName},
    {"function", Meaning::kMaybeName},
    {"function_name", Meaning::kMaybeName},
    {"param", Meaning::kMaybeName},
    {"parameter", Meaning::kMaybeName},
    {"param_name", Meaning::kMaybeName},
    {"parameter_name", Meaning::kMaybeName},
    {"arg", Meaning::kMaybeName},
    {"argument", Meaning::kMaybeName},
    {"field", Meaning::kMaybeName},
};

Meaning meaning_of(std::string_view attribute) {
  const std::string word = lower_case(attribute);
  const auto* exact = std::ranges::find(kAttributeNames, word, &AttributeName::text);
  if (exact != std::end(kAttributeNames)) return exact->meaning;
  const auto* near = std::ranges::find_if(kAttributeNames, [&word](const AttributeName& name) {
    return name.max_slips > 0 && is_misspelt(word, name.text, name.max_slips);
  });
  return near == std::end(kAttributeNames) ? Meaning::kUnknown : near->meaning;
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
  AttributeReader(std::string_view written, const PlainText& plain, std::size_t at, bool only_known)
      : written_(written), plain_(plain), text_(plain.text), at_(at), only_known_(only_known) {}

  /// False: no `>` where one is due; `at()` is then the end of the last attribute.
  bool read(Markup& tag) {
    read_name_behind_tag(tag);
    const bool is_ended = read_all(tag);
    if (!tag.name && maybe_name_) {
      tag.name = std::move(maybe_name_);
      tag.is_exact = false;
    }
    return is_ended;
  }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  bool read_all(Markup& tag) {
    while (true) {
      const std::size_t before = at_;
      at_ = std::min(text_.find_first_not_of(kWhiteSpace, at_), text_.size());
      if (has_attributes_ && take_separator()) continue;
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

  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }

  bool take(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool take_separator() {
    if (at_end() || kSeparators.find(text_[at_]) == std::string_view::npos) return false;
    ++at_;
    return true;
  }

  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }

  void take_quote() { at_ += begins_with_quote(rest()) ? 1 : 0; }
  void take_quotes() { at_ = std::min(text_.find_first_not_of("\"'", at_), text_.size()); }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t", at_), text_.size()); }

  /// `<invoke="get_weather">`, `<invoke:get_weather>`
  void read_name_behind_tag(Markup& tag) {
    const std::size_t before = at_;
    if (!tag.is_closing && (take(":") || take("."))) {
      const std::string_view word = leading_word(rest());
      if (word.empty()) {
        at_ = before;
        return;
      }
      tag.name = word;
      at_ += word.size();
      has_attributes_ = true;
      return;
    }
    skip_blanks();
    if (tag.is_closing || !take("=")) {
      at_ = before;
      return;
    }
    skip_blanks();
    tag.name = read_value();
    tag.is_assigned = true;
    has_attributes_ = true;
  }

  /// `is_apart`: white space stands before it.
  bool read_one(Markup& tag, bool is_apart) {
    if (!tag.name && is_apart && begins_with_quote(rest())) {  // <parameter "key" string="true">
      tag.name = read_value();
      return true;
    }
    const std::string_view word = leading_word(rest());
    if (word.empty()) return false;
    at_ += word.size();
    if (!take_equals()) {
      if (tag.name && meaning_of(word) == Meaning::kIsString && is_apart && !only_known_) return true;
      if (tag.name || only_known_ || !is_apart || has_attributes_) return false;
      tag.name = word;  // <invoke get_weather>
      return true;
    }
    has_attributes_ = true;
    return read_meaning(tag, word, is_apart);
  }

  bool read_meaning(Markup& tag, std::string_view word, bool is_apart) {
    const bool is_quoted = begins_with_quote(rest()) || rest().starts_with("\\");
    const Meaning meaning = meaning_of(word);
    switch (meaning) {
      case Meaning::kName: {
        std::string name = read_value();
        tag.is_doubtful |= tag.name && *tag.name != name;
        tag.name = std::move(name);
        return true;
      }
      case Meaning::kIsString: {
        const std::string flag = read_flag();
        if (flag == "true" || flag == "false") tag.is_string = flag == "true";
        return true;
      }
      case Meaning::kType: {
        const std::optional<bool> is_string = is_string_type(read_flag());
        if (!tag.is_string) tag.is_string = is_string;
        return true;
      }
      case Meaning::kMaybeName:
      case Meaning::kValue:
      case Meaning::kUnknown:
        break;
    }
    if (only_known_ || !is_apart || (!is_quoted && meaning == Meaning::kUnknown)) return false;
    std::string value = read_value();
    if (meaning == Meaning::kMaybeName) maybe_name_ = value;
    if (meaning == Meaning::kValue) {
      tag.value = std::move(value);
    } else {
      tag.others.emplace_back(word, std::move(value));
    }
    tag.is_doubtful |= meaning == Meaning::kValue && !is_closed_;
    return true;
  }

  bool take_equals() {
    const std::size_t before = at_;
    skip_blanks();
    for (const std::string_view equals : {":=", "==", "=", ":"}) {
      if (!take(equals)) continue;
      if (equals == "=" && begins_with_quote(rest().substr(std::min<std::size_t>(1, rest().size()))))
        take(">");  // name=>"run"
      skip_blanks();
      return true;
    }
    at_ = before;
    return false;
  }

  /// A word in quotation marks or none; text may follow at once, where the tag's `>` is missing.
  std::string read_flag() {
    take("\\");
    take_quotes();
    const std::string_view word = leading_word(rest());
    at_ += word.size();
    take("\\");
    take_quotes();
    return lower_case(word);
  }

  /// As it was written. Sets `is_closed_`.
  std::string read_value() {
    const bool is_escaped = take("\\"), is_quoted = begins_with_quote(rest());
    const char opening = is_quoted ? text_[at_] : '\0';
    take_quote();
    std::string_view value = is_quoted ? quoted(opening) : unquoted();
    // A lost quotation mark makes the next attribute look like a part of this one.
    for (const std::string_view next : {" string=", " name=", " type="}) {
      const std::size_t begin = value.find(next);
      if (begin == std::string_view::npos) continue;
      at_ = static_cast<std::size_t>(value.data() - text_.data()) + begin;
      value = without_trailing_quote(value.substr(0, begin));
      is_closed_ = false;
    }
    if (is_escaped && value.ends_with('\\')) value.remove_suffix(1);
    if (is_quoted && begins_with_quote(value))
      value = without_trailing_quote(value.substr(1));  // name=""key""
    const auto begin = static_cast<std::size_t>(value.data() - text_.data());
    return std::string(plain_.in(written_, begin, begin + value.size()));
  }

  std::string_view unquoted() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && kWhiteSpace.find(text_[at_]) == std::string_view::npos &&
           std::string_view("></\"'").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
    const std::string_view value = text_.substr(begin, at_ - begin);
    take_quote();
    is_closed_ = true;
    return value;
  }

  /// Up to the first fitting mark after which an attribute can end. Without one on the line: up to the first
  /// `>`, else up to the end of the line or the next tag.
  std::string_view quoted(char opening) {
    const std::size_t begin = at_;
    std::size_t angle = std::string_view::npos;
    for (; at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '<'; ++at_) {
      if (text_[at_] == '>' && angle == std::string_view::npos) angle = at_;
      if (text_[at_] != opening || !ends_attribute(rest().substr(1))) continue;
      is_closed_ = true;
      return text_.substr(begin, at_++ - begin);
    }
    if (angle != std::string_view::npos) at_ = angle;
    is_closed_ = false;
    return without_trailing_quote(text_.substr(begin, at_ - begin));
  }

  /// Whether the tag or another attribute follows. Where the tag's `>` is missing, so does any text after a
  /// flag; a word alone is that, not an attribute.
  static bool ends_attribute(std::string_view after) {
    after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
    if (after.empty() || after.starts_with(">") || after.starts_with("/>") || after.starts_with("\n") ||
        after.starts_with("<") || after.starts_with(",")) {
      return true;
    }
    if (kSeparators.find(after.front()) != std::string_view::npos) {
      after.remove_prefix(1);
      after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
    }
    const std::string_view word = leading_word(after);
    after.remove_prefix(word.size());
    after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
    const bool is_flag_alone = after.starts_with(">") && meaning_of(word) == Meaning::kIsString;
    return !word.empty() && (after.starts_with("=") || after.starts_with(":") || is_flag_alone);
  }

  std::string_view written_;
  const PlainText& plain_;
  std::string_view text_;  ///< the plain one
  std::size_t at_;
  bool only_known_;
  bool has_attributes_ = false;
  bool is_closed_ = true;  ///< the last value ended where its quotation mark says
  std::optional<std::string> maybe_name_;
};

/// What follows a tag without `>` is its value, unless it looks like more of the tag.
bool may_be_attributes(std::string_view after) {
  after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
  if (begins_with_quote(after)) return true;
  const std::string_view word = leading_word(after);
  after.remove_prefix(word.size());
  after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
  return !word.empty() && after.starts_with("=");
}

}  // namespace

void read_attributes(std::string_view text, const PlainText& plain, std::size_t& at, Markup& tag) {
  const Markup before = tag;
  AttributeReader all(text, plain, at, false);
  if (all.read(tag)) {
    at = all.at();
    return;
  }
  tag = before;
  AttributeReader known(text, plain, at, true);
  known.read(tag);
  at = known.at();
  tag.is_ended = tag.is_exact = false;
  tag.is_doubtful |= !tag.is_closing && may_be_attributes(std::string_view(plain.text).substr(at));
}

bool names_call_or_parameter(std::string_view attribute) {
  const Meaning meaning = meaning_of(attribute);
  return meaning == Meaning::kName || meaning == Meaning::kMaybeName;
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
