#include "grammar/text_set.h"

#include <algorithm>
#include <utility>

#include "grammar/builtin_rules.h"

namespace baleen {

TextSet texts_of_length(std::uint64_t least, std::uint64_t most) {
  if (least > most) return {};
  return {{.automaton = any_text(), .least = least, .most = most}};
}

std::optional<TextSet> in_both(const TextSet& a, const TextSet& b) {
  TextSet both;
  for (const SizedTexts& one : a) {
    for (const SizedTexts& other : b) {
      const std::uint64_t least = std::max(one.least, other.least), most = std::min(one.most, other.most);
      if (least > most) continue;
      std::optional<CharAutomaton> automaton = in_both(one.automaton, other.automaton);
      if (!automaton) return std::nullopt;
      if (!automaton->is_empty()) both.push_back({*std::move(automaton), least, most});
      if (both.size() > kMaxTextParts) return std::nullopt;
    }
  }
  return both;
}

std::optional<TextSet> all_but(const TextSet& set) {
  TextSet rest = texts_of_length(0, kUnbounded);
  for (const SizedTexts& part : set) {
    if (part.least > 0 || part.most != kUnbounded) return std::nullopt;
    std::optional<TextSet> both = in_both(rest, {{.automaton = complement(part.automaton)}});
    if (!both) return std::nullopt;
    rest = *std::move(both);
  }
  return rest;
}

std::optional<TextSet> without_markup(const TextSet& set) {
  TextSet result;
  for (const SizedTexts& part : set) {
    std::optional<CharAutomaton> automaton = without_markup(part.automaton);
    if (!automaton) return std::nullopt;
    if (!automaton->is_empty()) result.push_back({*std::move(automaton), part.least, part.most});
  }
  return result;
}

bool accepts(const TextSet& set, std::u32string_view text) {
  return std::ranges::any_of(set, [text](const SizedTexts& part) {
    return text.size() >= part.least && text.size() <= part.most && accepts(part.automaton, text);
  });
}

std::optional<NodeId> write_texts(GraphBuilder& builder, const TextSet& set, Writing writing, NodeId next) {
  if (set.empty()) return builder.dead();
  std::vector<NodeId> ways;
  for (const SizedTexts& part : set) {
    const std::optional<NodeId> way =
        write_text_counted(builder, part.automaton, writing, part.least, part.most, next);
    if (!way) return std::nullopt;
    ways.push_back(*way);
  }
  return builder.split(std::move(ways));
}

}  // namespace baleen
