#include "grammar/pattern_syntax.h"

#include <algorithm>
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
    if (depth > kMaxNesting) wrong("groups nested too deep");
    do node.parts.push_back(sequence(depth));
    while (!failure_ && take(U'|'));
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
        return one_of(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
      case U'(': {
        if (take(U'?') && !take(U':')) {
          const bool named = take(U'<') && at_ < text_.size() && text_[at_] != U'=' && text_[at_] != U'!';
          if (!named) return wrong("a group that looks around or sets flags");
          while (at_ < text_.size() && text_[at_] != U'>') ++at_;
          if (!take(U'>')) return wrong("a group without an end of its name");
        }
        PatternNode inside = choice(depth + 1);
        if (!failure_ && !take(U')')) return wrong("a '(' without its ')'");
        return inside;
      }
      case U'[':
        return one_of(bracket());
      case U'\\':
        if (take(U'b')) return {.kind = PatternNode::Kind::kBoundary};
        if (take(U'B')) return {.kind = PatternNode::Kind::kBoundary, .least = 1};
        return one_of(escaped(false));
      case U'*':
      case U'+':
      case U'?':
        return wrong("a quantifier after nothing");
      default:
        return one_of({{c, c}});
    }
  }

  PatternNode repeated(PatternNode inside) {
    while (!failure_ && at_ < text_.size()) {
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
        break;
      }
      if (inside.kind == PatternNode::Kind::kBegin || inside.kind == PatternNode::Kind::kEnd ||
          inside.kind == PatternNode::Kind::kBoundary)
        return wrong("a repeated anchor");
      take(U'?');  // lazy: which match is found does not matter here
      PatternNode node{.kind = PatternNode::Kind::kRepeat, .least = least, .most = most};
      node.parts.push_back(std::move(inside));
      inside = std::move(node);
    }
    return inside;
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
    ranges = normal_ranges(std::move(ranges));
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
    if (c == U'u') return take(U'{') ? braced_hex() : hex(4);
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
      while (at_ < text_.size() && text_[at_] < 0x80 && text_[at_] != U'}') name += static_cast<char>(text_[at_++]);
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

  std::u32string text_;
  std::size_t at_ = 0;
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

Result<PatternNode> parse_pattern(std::string_view pattern) {
  if (find_invalid_utf8(pattern)) return failure("the pattern is not valid UTF-8");
  return PatternParser(to_characters(pattern)).run();
}

}  // namespace baleen
