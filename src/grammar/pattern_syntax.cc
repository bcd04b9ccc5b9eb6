#include "grammar/pattern_syntax.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "grammar/unicode_class.h"

namespace baleen {
namespace {

constexpr int kMaxNesting = 100;
constexpr std::uint32_t kMaxRepeat = 10'000;

std::vector<CharRange> complement(const std::vector<CharRange>& ranges) {
  std::vector<CharRange> rest;
  char32_t from = 0;
  for (const CharRange& range : ranges) {
    if (range.first > from) rest.push_back({from, range.first - 1});
    from = range.last + 1;
  }
  if (from <= kLastCharacter) rest.push_back({from, kLastCharacter});
  return rest;
}

/// Of \d, \w, \s; nothing for another letter.
std::optional<std::vector<CharRange>> class_of_letter(char32_t letter) {
  switch (letter) {
    case U'd':
      return {{{U'0', U'9'}}};
    case U'w':
      return word_characters();
    case U's':
      return {{{0x09, 0x0D},
               {0x20, 0x20},
               {0xA0, 0xA0},
               {0x1680, 0x1680},
               {0x2000, 0x200A},
               {0x2028, 0x2029},
               {0x202F, 0x202F},
               {0x205F, 0x205F},
               {0x3000, 0x3000},
               {0xFEFF, 0xFEFF}}};
    default:
      return std::nullopt;
  }
}

class PatternParser {
 public:
  explicit PatternParser(std::u32string pattern) : text_(std::move(pattern)) {}

  Result<PatternNode> run() {
    PatternNode root = choice(0);
    if (!failure_ && at_ < text_.size()) wrong("a ')' without its '('");
    if (failure_) return *failure_;
    return root;
  }

 private:
  PatternNode choice(int depth) {
    PatternNode node{.kind = PatternNode::Kind::kChoice};
    const Flags outer = flags_;  // a flag holds to the end of its group
    if (depth > kMaxNesting) wrong("groups nested too deep");
    do node.parts.push_back(sequence(depth));
    while (!failure_ && take(U'|'));
    flags_ = outer;
    return node.parts.size() == 1 ? std::move(node.parts[0]) : node;
  }

  PatternNode sequence(int depth) {
    PatternNode node;
    while (!failure_ && at_ < text_.size() && text_[at_] != U'|' && text_[at_] != U')')
      node.parts.push_back(repeated(atom(depth)));
    return node;
  }

  PatternNode atom(int depth) {
    const char32_t c = text_[at_++];
    switch (c) {
      case U'^':
        return {.kind = PatternNode::Kind::kBegin};
      case U'$':
        return {.kind = PatternNode::Kind::kEnd};
      case U'.':
        if (flags_.dot_is_all) return one_of({{0, kLastCharacter}});
        return one_of(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
      case U'(':
        return group(depth);
      case U'[':
        return one_of(bracket());
      case U'\\':
        if (take(U'b')) return {.kind = PatternNode::Kind::kBoundary};
        if (take(U'B')) return {.kind = PatternNode::Kind::kBoundary, .least = 1};
        if (take(U'A')) return {.kind = PatternNode::Kind::kBegin};
        if (take(U'Z') || take(U'z')) return {.kind = PatternNode::Kind::kEnd};
        return one_of(in_any_case(escaped(false)));
      case U'*':
      case U'+':
      case U'?':
        return wrong("a quantifier after nothing");
      default:
        return one_of(in_any_case({{c, c}}));
    }
  }

  /// After "(".
  PatternNode group(int depth) {
    if (take(U'?') && !take(U':')) {
      if (take(U'#')) return comment();
      const bool is_behind = text_.compare(at_, 2, U"<=") == 0 || text_.compare(at_, 2, U"<!") == 0;
      if (is_behind) ++at_;
      const bool is_negated = take(U'!');
      if (is_negated || take(U'=')) {
        const auto kind = is_behind ? PatternNode::Kind::kBehind : PatternNode::Kind::kAhead;
        PatternNode look{.kind = kind, .least = is_negated ? 1U : 0U};
        look.parts.push_back(rest_of_group(depth));
        return look;
      }
      take(U'P');
      if (take(U'<')) {
        while (at_ < text_.size() && text_[at_] != U'>') ++at_;
        if (!take(U'>')) return wrong("a group without an end of its name");
      } else {
        return flagged(depth);
      }
    }
    return rest_of_group(depth);
  }

  PatternNode rest_of_group(int depth) {
    PatternNode inside = choice(depth + 1);
    if (!failure_ && !take(U')')) return wrong("a '(' without its ')'");
    return inside;
  }

  PatternNode comment() {
    while (at_ < text_.size() && text_[at_] != U')') ++at_;
    if (!take(U')')) return wrong("a '(' without its ')'");
    return {};
  }

  /// (?i) and (?i:...): flags for the rest of the group that they stand in, or for their own.
  PatternNode flagged(int depth) {
    const Flags outer = flags_;
    bool value = true;
    for (; at_ < text_.size() && text_[at_] != U')' && text_[at_] != U':'; ++at_) {
      if (text_[at_] == U'i') {
        flags_.any_case = value;
      } else if (text_[at_] == U's') {
        flags_.dot_is_all = value;
      } else if (text_[at_] == U'-') {
        value = false;
      } else if (text_[at_] != U'u') {
        return wrong("a group of a kind or with flags that are not supported");
      }
    }
    if (take(U')')) return {};
    if (!take(U':')) return wrong("a '(' without its ')'");
    PatternNode inside = rest_of_group(depth);
    flags_ = outer;
    return inside;
  }

  PatternNode repeated(PatternNode inside) {
    if (failure_ || at_ >= text_.size()) return inside;
    std::uint32_t least = 0, most = kNoLimit;
    if (take(U'+')) {
      least = 1;
    } else if (take(U'?')) {
      most = 1;
    } else if (text_[at_] == U'{' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])) {
      ++at_;
      least = most = number();
      if (take(U',')) most = at_ < text_.size() && is_digit(text_[at_]) ? number() : kNoLimit;
      if (!take(U'}') || least > most) return wrong("a malformed quantifier");
    } else if (!take(U'*')) {
      return inside;
    }
    if (is_assertion(inside)) return wrong("a repeated anchor");
    take(U'?');  // lazy: which match is found does not matter here
    if (at_ < text_.size() && (text_[at_] == U'*' || text_[at_] == U'+' || text_[at_] == U'?'))
      return wrong("a quantifier after a quantifier");
    PatternNode node{.kind = PatternNode::Kind::kRepeat, .least = least, .most = most};
    node.parts.push_back(std::move(inside));
    return node;
  }

  /// With the other case of Latin letters beside each, where the flag asks for it.
  [[nodiscard]] std::vector<CharRange> in_any_case(std::vector<CharRange> ranges) const {
    if (!flags_.any_case) return ranges;
    static constexpr char32_t kToOtherCase = U'a' - U'A';
    const auto add = [&](const CharRange& range, char32_t first, char32_t last, char32_t to_first) {
      const char32_t from = std::max(range.first, first), to = std::min(range.last, last);
      if (from <= to) ranges.push_back({from - first + to_first, to - first + to_first});
    };
    for (const CharRange& range : std::vector<CharRange>(ranges)) {
      for (const char32_t block : {U'A', char32_t{0xC0}, char32_t{0xD8}}) {  // × and ÷ have no other case
        const char32_t size = block == U'A' ? 25 : block == 0xC0 ? 22 : 6;
        add(range, block, block + size, block + kToOtherCase);
        add(range, block + kToOtherCase, block + kToOtherCase + size, block);
      }
      // Two letters have a third form: the signs of kelvin and of long s.
      static constexpr std::array<char32_t, 3> kForms[] = {{U'k', U'K', 0x212A}, {U's', U'S', 0x17F}};
      for (const auto& forms : kForms) {
        for (const char32_t form : forms) {
          for (const char32_t other : forms) add(range, form, form, other);
        }
      }
    }
    return normal_ranges(std::move(ranges));
  }

  static PatternNode one_of(std::vector<CharRange> ranges) {
    return {.kind = PatternNode::Kind::kClass, .ranges = std::move(ranges)};
  }

  std::vector<CharRange> bracket() {
    const bool negated = take(U'^');
    std::vector<CharRange> ranges;
    while (!failure_ && !take(U']')) {
      if (at_ >= text_.size()) {
        wrong("a '[' without its ']'");
        break;
      }
      std::vector<CharRange> from = class_member();
      const bool is_range = at_ + 1 < text_.size() && text_[at_] == U'-' && text_[at_ + 1] != U']';
      if (is_range && from.size() == 1 && from[0].first == from[0].last) {
        ++at_;
        const std::vector<CharRange> to = class_member();
        if (to.size() != 1 || to[0].first != to[0].last || to[0].first < from[0].first) {
          wrong("a malformed range of characters");
          break;
        }
        from[0].last = to[0].last;
      }
      ranges.insert(ranges.end(), from.begin(), from.end());
    }
    ranges = normal_ranges(in_any_case(std::move(ranges)));
    return negated ? complement(ranges) : ranges;
  }

  std::vector<CharRange> class_member() {
    const char32_t c = text_[at_++];
    if (c == U'\\') return escaped(true);
    return {{c, c}};
  }

  /// What follows a backslash.
  std::vector<CharRange> escaped(bool in_class) {
    if (at_ >= text_.size()) {
      wrong("a backslash at the end");
      return {};
    }
    const char32_t c = text_[at_++];
    if (auto ranges = class_of_letter(c)) return *ranges;
    if (c < 0x80) {
      if (auto ranges = class_of_letter(c | 0x20U); ranges && c >= U'A' && c <= U'Z')
        return complement(*ranges);
    }
    static constexpr std::pair<char32_t, char32_t> kControls[] = {{U'n', '\n'}, {U't', '\t'}, {U'r', '\r'},
                                                                  {U'f', '\f'}, {U'v', '\v'}, {U'0', '\0'}};
    for (const auto& [letter, control] : kControls) {
      if (c == letter) return {{control, control}};
    }
    if (c == U'b' && in_class) return {{'\b', '\b'}};
    if (c == U'p' || c == U'P') {
      const std::vector<CharRange> ranges = property();
      return c == U'p' ? ranges : complement(ranges);
    }
    if (c == U'x') return hex(2);
    if (c == U'u') return take(U'{') ? braced_hex() : unit();
    if (c == U'c' && at_ < text_.size() && (text_[at_] | 0x20U) >= U'a' && (text_[at_] | 0x20U) <= U'z') {
      const char32_t control = text_[at_++] & 0x1FU;
      return {{control, control}};
    }
    const bool is_letter = (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || is_digit(c);
    if (is_letter) {
      wrong("an escape that is not supported");
      return {};
    }
    return {{c, c}};
  }

  /// {Name} or one letter.
  std::vector<CharRange> property() {
    std::string name;
    if (take(U'{')) {
      while (at_ < text_.size() && text_[at_] < 0x80 && text_[at_] != U'}')
        name += static_cast<char>(text_[at_++]);
      if (!take(U'}')) name.clear();
    } else if (at_ < text_.size() && text_[at_] < 0x80) {
      name += static_cast<char>(text_[at_++]);
    }
    const auto ranges = unicode_class(name);
    if (!ranges) wrong("an unknown Unicode property");
    return ranges.value_or(std::vector<CharRange>());
  }

  std::vector<CharRange> hex(std::size_t digits) {
    char32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const int digit = at_ < text_.size() ? hex_digit(text_[at_]) : -1;
      if (digit < 0) {
        wrong("an escape with too few hexadecimal digits");
        return {};
      }
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    return {{value, value}};
  }

  /// Four digits; two units of a surrogate pair stand for one character.
  std::vector<CharRange> unit() {
    const std::vector<CharRange> high = hex(4);
    const bool is_high = high.size() == 1 && high[0].first >= 0xD800 && high[0].first <= 0xDBFF;
    if (!is_high || text_.compare(at_, 2, U"\\u") != 0) return high;
    const std::size_t before = at_;
    at_ += 2;
    const std::vector<CharRange> low = hex(4);
    if (low.size() != 1 || low[0].first < 0xDC00 || low[0].first > 0xDFFF) {
      at_ = before;
      return high;
    }
    const char32_t both = 0x10000 + ((high[0].first - 0xD800) << 10) + (low[0].first - 0xDC00);
    return {{both, both}};
  }

  std::vector<CharRange> braced_hex() {
    char32_t value = 0;
    while (at_ < text_.size() && hex_digit(text_[at_]) >= 0 && value <= kLastCharacter)
      value = value * 16 + static_cast<char32_t>(hex_digit(text_[at_++]));
    if (!take(U'}') || value > kLastCharacter) wrong("a malformed \\u{...}");
    return {{value, value}};
  }

  static int hex_digit(char32_t c) {
    if (is_digit(c)) return static_cast<int>(c - U'0');
    const char32_t lower = c | 0x20U;
    return lower >= U'a' && lower <= U'f' ? static_cast<int>(lower - U'a') + 10 : -1;
  }
  static bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }

  std::uint32_t number() {
    std::uint32_t value = 0;
    while (at_ < text_.size() && is_digit(text_[at_])) {
      value = value * 10 + static_cast<std::uint32_t>(text_[at_++] - U'0');
      if (value > kMaxRepeat) {
        wrong("a quantifier above 10000");
        return 0;
      }
    }
    return value;
  }

  bool take(char32_t c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  PatternNode wrong(std::string_view what) {
    if (!failure_) failure_ = failure("character {} of the pattern: {}", at_, what);
    return {};
  }

  struct Flags {
    bool any_case = false, dot_is_all = false;
  };

  std::u32string text_;
  std::size_t at_ = 0;
  Flags flags_;
  std::optional<Failure> failure_;
};

}  // namespace

const std::vector<CharRange>& word_characters() {
  static const std::vector<CharRange> kWord = {{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}};
  return kWord;
}

std::vector<CharRange> normal_ranges(std::vector<CharRange> ranges) {
  std::ranges::sort(ranges, {}, &CharRange::first);
  std::vector<CharRange> out;
  for (const CharRange& range : ranges) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

bool is_assertion(const PatternNode& node) {
  using Kind = PatternNode::Kind;
  return node.kind == Kind::kBegin || node.kind == Kind::kEnd || node.kind == Kind::kBoundary ||
         node.kind == Kind::kAhead || node.kind == Kind::kBehind;
}

Result<PatternNode> parse_pattern(std::string_view pattern) {
  if (find_invalid_utf8(pattern)) return failure("the pattern is not valid UTF-8");
  return PatternParser(to_characters(pattern)).run();
}

}  // namespace baleen
