#include "grammar/pattern.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "grammar/pattern_automaton.h"
#include "grammar/pattern_syntax.h"

namespace baleen {
namespace {

using Kind = PatternNode::Kind;

/// Repetitions up to here become states; longer ones become lengths where that is possible.
constexpr std::uint32_t kMaxUnrolled = 24;

bool is_long(const PatternNode& node) {
  return node.kind == Kind::kRepeat && (node.most == kNoLimit ? node.least : node.most) > kMaxUnrolled;
}

bool holds_long(const PatternNode& node) {
  return is_long(node) || std::ranges::any_of(node.parts, holds_long);
}

PatternNode sequence_of(std::vector<PatternNode> parts) {
  return {.kind = Kind::kSequence, .parts = std::move(parts)};
}

/// The length of every text of a node, if they all have the same.
std::optional<std::uint64_t> fixed_length(const PatternNode& node) {
  if (node.kind == Kind::kClass) return 1;
  if (is_assertion(node)) return 0;
  if (node.kind == Kind::kRepeat) {
    const std::optional<std::uint64_t> once = fixed_length(node.parts[0]);
    if (!once || node.least != node.most || *once > kUnbounded / 2 / (node.least + 1)) return std::nullopt;
    return *once * node.least;
  }
  std::uint64_t sum = 0;
  for (const PatternNode& part : node.parts) {
    const std::optional<std::uint64_t> length = fixed_length(part);
    if (!length || (node.kind == Kind::kChoice && &part != &node.parts[0] && *length != sum))
      return std::nullopt;
    sum = node.kind == Kind::kChoice ? *length : sum + *length;
    if (sum > kUnbounded / 4) return std::nullopt;
  }
  return sum;
}

/// A pattern with a repetition whose count follows from the length of the whole text.
struct Sized {
  PatternNode pattern;
  std::uint64_t least = 0, most = kUnbounded;
};

std::vector<PatternNode> replaced(const std::vector<PatternNode>& parts, std::size_t at,
                                  const std::vector<PatternNode>& by) {
  const auto place = parts.begin() + static_cast<std::ptrdiff_t>(at);
  std::vector<PatternNode> others(parts.begin(), place);
  others.insert(others.end(), by.begin(), by.end());
  others.insert(others.end(), place + 1, parts.end());
  return others;
}

/// A sequence without sequences directly in it.
void append_flat(const PatternNode& node, std::vector<PatternNode>& parts) {
  if (node.kind != Kind::kSequence) return parts.push_back(node);
  for (const PatternNode& part : node.parts) append_flat(part, parts);
}

std::vector<PatternNode> flat(const PatternNode& node) {
  std::vector<PatternNode> parts;
  append_flat(node, parts);
  return parts;
}

/// Choices that are expanded on the way to one pattern.
constexpr int kMaxExpansions = 4;

/// `parts`, the first of which is ^ and the last $, with their one long repetition unbounded and its bounds
/// as bounds of the length: that is the same only when all other parts have one length each. Optional parts
/// and alternatives are expanded until they have. False: there is another part of several lengths.
bool add_sized(const std::vector<PatternNode>& parts, int left, std::vector<Sized>& result) {
  if (result.size() >= kMaxTextParts) return false;
  std::optional<std::size_t> repetition, fixed_repetition;
  std::uint64_t others = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const PatternNode& part = parts[i];
    if (const std::optional<std::uint64_t> length = fixed_length(part)) {
      if (is_long(part) && !fixed_repetition) fixed_repetition = i;
      others += *length;
      continue;
    }
    std::vector<std::vector<PatternNode>> ways;
    if (part.kind == Kind::kChoice) {
      for (const PatternNode& one : part.parts) ways.push_back(flat(one));
    } else if (part.kind == Kind::kRepeat && part.least == 0 && part.most == 1) {
      ways = {{}, flat(part.parts[0])};
    }
    if (!ways.empty()) {
      return left > 0 && ways.size() <= kMaxTextParts &&
             std::ranges::all_of(ways, [&](const std::vector<PatternNode>& way) {
               return add_sized(replaced(parts, i, way), left - 1, result);
             });
    }
    if (repetition || !is_long(part)) return false;
    repetition = i;
  }
  if (!repetition && !fixed_repetition) {
    result.push_back({sequence_of(parts)});
    return true;
  }
  PatternNode any_number = parts[repetition ? *repetition : *fixed_repetition];
  const std::optional<std::uint64_t> once = fixed_length(any_number.parts[0]);
  if (!once || *once == 0) return false;
  if (!repetition) others -= *once * any_number.least;
  Sized sized{.least = others + *once * any_number.least};
  if (any_number.most != kNoLimit) sized.most = others + *once * any_number.most;
  any_number.least = 0;
  any_number.most = kNoLimit;
  sized.pattern = sequence_of(replaced(parts, repetition ? *repetition : *fixed_repetition, {any_number}));
  result.push_back(std::move(sized));
  return true;
}

Result<TextSet> texts_of_all(const std::vector<Sized>& patterns) {
  TextSet set;
  for (const Sized& one : patterns) {
    Result<CharAutomaton> automaton = pattern_automaton(one.pattern);
    if (!automaton) return Failure{automaton.error()};
    if (!automaton.value().is_empty()) set.push_back({std::move(automaton).value(), one.least, one.most});
  }
  return set;
}

Result<TextSet> texts_of(const PatternNode& pattern, int left) {
  if (!holds_long(pattern)) return texts_of_all({{pattern}});
  // A look ahead from the beginning that holds a long repetition is a pattern of its own: both must be found.
  std::vector<PatternNode> parts = flat(pattern);
  for (std::size_t i = 1; left > 0 && i < parts.size() && is_assertion(parts[i]); ++i) {
    if (parts[0].kind != Kind::kBegin) break;
    if (parts[i].kind != Kind::kAhead || parts[i].least == 1 || !holds_long(parts[i])) continue;
    const Result<TextSet> ahead = texts_of(sequence_of({parts[0], parts[i].parts[0]}), left - 1);
    if (!ahead) return ahead;
    const Result<TextSet> others = texts_of(sequence_of(replaced(parts, i, {})), left - 1);
    if (!others) return others;
    std::optional<TextSet> both = in_both(others.value(), ahead.value());
    if (!both) return failure("the pattern and what it looks for ahead are too complex together");
    return *std::move(both);
  }
  std::vector<PatternNode> choices = {pattern};
  if (pattern.kind == Kind::kChoice) choices = pattern.parts;
  std::vector<Sized> sized;
  const bool are_sized = std::ranges::all_of(choices, [&](const PatternNode& choice) {
    const std::vector<PatternNode> ones = flat(choice);
    return ones.size() >= 2 && ones.front().kind == Kind::kBegin && ones.back().kind == Kind::kEnd &&
           add_sized(ones, kMaxExpansions, sized);
  });
  return texts_of_all(are_sized ? sized : std::vector<Sized>{{pattern}});
}

bool holds_look(const PatternNode& node) {
  return node.kind == Kind::kAhead || node.kind == Kind::kBehind ||
         std::ranges::any_of(node.parts, holds_look);
}

}  // namespace

Result<TextSet> compile_pattern(std::string_view pattern) {
  const Result<PatternNode> parsed = parse_pattern(pattern);
  if (!parsed) return Failure{parsed.error()};
  return texts_of(parsed.value(), kMaxExpansions);
}

bool looks_around(std::string_view pattern) {
  const Result<PatternNode> parsed = parse_pattern(pattern);
  return parsed && holds_look(parsed.value());
}

}  // namespace baleen
