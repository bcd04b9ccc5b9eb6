#include "grammar/pattern.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/work_budget.h"
#include "grammar/pattern_syntax.h"

namespace baleen {
namespace {

constexpr std::size_t kMaxNfaStates = 20'000;
/// States looked at while determinising, over all subsets: bounds the time to a fraction of a second.
constexpr std::size_t kMaxSubsetWork = 3'000'000;
/// Deterministic states of a pattern alone, before lengths and forbidden words multiply them.
constexpr std::size_t kMaxPatternStates = 3'000;

/// Thompson's construction, from the end to the beginning as GraphBuilder does it.
class Nfa {
 public:
  struct State {
    std::vector<CharRange>
        ranges;  ///< read one of these and go to targets[0]; none: go to all targets at once
    std::vector<std::uint32_t> targets;
    bool accepts = false;
    /// Passed only where a word begins or ends here (\b), or only where none does (\B); then `ranges` is
    /// empty.
    enum class Boundary : std::uint8_t { kNone, kHere, kNotHere } boundary = Boundary::kNone;
  };

  std::uint32_t add(State state) {
    if (states_.size() >= kMaxNfaStates) {
      overflowed_ = true;
      return 0;
    }
    states_.push_back(std::move(state));
    return static_cast<std::uint32_t>(states_.size() - 1);
  }

  /// Texts of `node`, then `next`. Anchors are gone by now.
  std::uint32_t build(const PatternNode& node, std::uint32_t next) {
    if (overflowed_) return 0;
    switch (node.kind) {
      case PatternNode::Kind::kClass:
        return add({node.ranges.empty() ? std::vector<CharRange>{{1, 0}} : node.ranges, {next}, false});
      case PatternNode::Kind::kSequence:
        for (std::size_t i = node.parts.size(); i-- > 0;) next = build(node.parts[i], next);
        return next;
      case PatternNode::Kind::kChoice: {
        State split;
        for (const PatternNode& part : node.parts) split.targets.push_back(build(part, next));
        return add(std::move(split));
      }
      case PatternNode::Kind::kRepeat:
        return build_repeat(node, next);
      case PatternNode::Kind::kBoundary:
        has_boundaries_ = true;
        return add({{}, {next}, false, node.least == 0 ? State::Boundary::kHere : State::Boundary::kNotHere});
      case PatternNode::Kind::kBegin:
      case PatternNode::Kind::kEnd:
        return next;
    }
    return next;
  }

  std::uint32_t build_repeat(const PatternNode& node, std::uint32_t next) {
    if (node.most == kNoLimit) {
      const std::uint32_t loop = add({{}, {next}, false});
      const std::uint32_t round = build(node.parts[0], loop);
      if (overflowed_) return 0;
      states_[loop].targets.push_back(round);
      next = loop;
    } else {
      const std::uint32_t end = next;
      for (std::uint32_t i = node.least; i < node.most && !overflowed_; ++i)
        next = add({{}, {end, build(node.parts[0], next)}, false});
    }
    for (std::uint32_t i = 0; i < node.least && !overflowed_; ++i) next = build(node.parts[0], next);
    return next;
  }

  [[nodiscard]] std::optional<CharAutomaton> determinise(std::uint32_t begin) const {
    if (overflowed_) return std::nullopt;
    // A subset, and whether the character before it belongs to a word: what a boundary depends on.
    using Place = std::pair<std::vector<std::uint32_t>, bool>;
    std::map<Place, std::uint32_t> numbers;
    std::vector<Place> places;
    const auto number_of = [&](Place place) {
      const auto [found, is_new] = numbers.try_emplace(place, static_cast<std::uint32_t>(places.size()));
      if (is_new) places.push_back(std::move(place));
      return found->second;
    };
    CharAutomaton result;
    std::size_t work = 0;
    number_of({closure({begin}, std::nullopt), false});
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto [subset, after_word] = places[i];
      // The end of the text is no word's, so a boundary is there after a word.
      const std::vector<std::uint32_t> at_end = resolved(subset, after_word);
      CharAutomaton::State state{
          .accepts = std::ranges::any_of(at_end, [&](std::uint32_t s) { return states_[s].accepts; })};
      const std::vector<std::uint32_t>& before_other = at_end;
      const std::vector<std::uint32_t> before_word = has_boundaries_ ? resolved(subset, !after_word) : at_end;
      const std::vector<char32_t> cuts = cuts_of(before_word, before_other);
      for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
        const bool is_word = has_boundaries_ && holds(word_characters(), cuts[k]);
        const std::vector<std::uint32_t>& readers = is_word ? before_word : before_other;
        work += readers.size();
        spend_work(std::ssize(readers));
        if (work > kMaxSubsetWork) return std::nullopt;
        std::vector<std::uint32_t> reached;
        for (const std::uint32_t s : readers) {
          if (holds(states_[s].ranges, cuts[k])) reached.push_back(states_[s].targets[0]);
        }
        if (reached.empty()) continue;
        reached = closure(std::move(reached), std::nullopt);
        work += reached.size();
        const std::uint32_t target = number_of({std::move(reached), is_word});
        const bool continues = !state.edges.empty() && state.edges.back().target == target &&
                               state.edges.back().range.last + 1 == cuts[k];
        if (continues) {
          state.edges.back().range.last = cuts[k + 1] - 1;
        } else {
          state.edges.push_back({{cuts[k], cuts[k + 1] - 1}, target});
        }
      }
      if (places.size() > kMaxPatternStates) return std::nullopt;
      result.states.push_back(std::move(state));
    }
    trim(result);
    return result;
  }

 private:
  static bool holds(const std::vector<CharRange>& ranges, char32_t c) {
    return std::ranges::any_of(ranges, [c](const CharRange& r) { return r.first <= c && c <= r.last; });
  }

  /// Where a range begins or has ended, in order; where boundaries matter, words too.
  [[nodiscard]] std::vector<char32_t> cuts_of(const std::vector<std::uint32_t>& before_word,
                                              const std::vector<std::uint32_t>& before_other) const {
    std::vector<char32_t> cuts;
    const auto add = [&](const std::vector<CharRange>& ranges) {
      for (const CharRange& range : ranges) {
        if (range.first > range.last) continue;
        cuts.push_back(range.first);
        cuts.push_back(range.last + 1);
      }
    };
    for (const std::uint32_t s : before_other) add(states_[s].ranges);
    if (has_boundaries_) {
      for (const std::uint32_t s : before_word) add(states_[s].ranges);
      add(word_characters());
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    return cuts;
  }

  /// `subset` with its boundaries passed or dropped.
  [[nodiscard]] std::vector<std::uint32_t> resolved(const std::vector<std::uint32_t>& subset,
                                                    bool is_boundary) const {
    return has_boundaries_ ? closure(subset, is_boundary) : subset;
  }

  /// With all that is reached without reading; only states that read or accept are kept, and boundaries that
  /// cannot be decided yet.
  [[nodiscard]] std::vector<std::uint32_t> closure(std::vector<std::uint32_t> work,
                                                   std::optional<bool> is_boundary) const {
    using Boundary = State::Boundary;
    spend_work(std::ssize(states_) / 64 + 4 * std::ssize(work));
    std::vector<bool> seen(states_.size());
    std::vector<std::uint32_t> kept;
    while (!work.empty()) {
      const std::uint32_t s = work.back();
      work.pop_back();
      if (seen[s]) continue;
      seen[s] = true;
      const State& state = states_[s];
      if (state.boundary != Boundary::kNone && is_boundary) {
        if ((state.boundary == Boundary::kHere) == *is_boundary) work.push_back(state.targets[0]);
      } else if (state.accepts || !state.ranges.empty() || state.boundary != Boundary::kNone) {
        kept.push_back(s);
      } else {
        spend_work(std::ssize(state.targets));
        work.insert(work.end(), state.targets.begin(), state.targets.end());
      }
    }
    std::ranges::sort(kept);
    return kept;
  }

  bool has_boundaries_ = false;
  std::vector<State> states_;
  bool overflowed_ = false;
};

bool has_anchor(const PatternNode& node) {
  using Kind = PatternNode::Kind;
  if (node.kind == Kind::kBegin || node.kind == Kind::kEnd) return true;
  return std::ranges::any_of(node.parts, has_anchor);
}

PatternNode anything() {
  PatternNode any{.kind = PatternNode::Kind::kClass, .ranges = {{0, kLastCharacter}}};
  return {.kind = PatternNode::Kind::kRepeat, .parts = {std::move(any)}, .least = 0, .most = kNoLimit};
}

/// One alternative of the pattern with its anchors turned into the absence of `anything`. Nothing: an anchor
/// in the middle. `outer_*`: anchored from outside the group.
std::optional<PatternNode> without_anchors(const PatternNode& node, bool outer_begin, bool outer_end) {
  using Kind = PatternNode::Kind;
  if (node.kind == Kind::kChoice) {
    PatternNode choice{.kind = Kind::kChoice};
    for (const PatternNode& part : node.parts) {
      std::optional<PatternNode> plain = without_anchors(part, outer_begin, outer_end);
      if (!plain) return std::nullopt;
      choice.parts.push_back(*std::move(plain));
    }
    return choice;
  }
  PatternNode sequence = node;
  if (node.kind != Kind::kSequence) sequence = {.kind = Kind::kSequence, .parts = {node}};
  bool begin = outer_begin, end = outer_end;
  while (!sequence.parts.empty() && sequence.parts.front().kind == Kind::kBegin) {
    begin = true;
    sequence.parts.erase(sequence.parts.begin());
  }
  while (!sequence.parts.empty() && sequence.parts.back().kind == Kind::kEnd) {
    end = true;
    sequence.parts.pop_back();
  }
  if (sequence.parts.size() == 1 && has_anchor(sequence.parts[0])) {
    if (sequence.parts[0].kind == Kind::kRepeat) return std::nullopt;
    return without_anchors(sequence.parts[0], begin, end);
  }
  if (std::ranges::any_of(sequence.parts, has_anchor)) return std::nullopt;
  if (!begin) sequence.parts.insert(sequence.parts.begin(), anything());
  if (!end) sequence.parts.push_back(anything());
  return sequence;
}

}  // namespace

Result<CharAutomaton> compile_pattern(std::string_view pattern) {
  const Result<PatternNode> parsed = parse_pattern(pattern);
  if (!parsed) return Failure{parsed.error()};
  const std::optional<PatternNode> plain = without_anchors(parsed.value(), false, false);
  if (!plain)
    return failure("the pattern has an anchor (^ or $) elsewhere than at its ends, which is not supported");
  Nfa nfa;
  const std::uint32_t end = nfa.add({.accepts = true});
  std::optional<CharAutomaton> automaton = nfa.determinise(nfa.build(*plain, end));
  if (!automaton) return failure("the pattern is too complex; shorter repetitions may help");
  return *std::move(automaton);
}

}  // namespace baleen
