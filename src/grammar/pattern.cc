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
    std::map<std::vector<std::uint32_t>, std::uint32_t> numbers;
    std::vector<std::vector<std::uint32_t>> subsets;
    const auto number_of = [&](std::vector<std::uint32_t> subset) {
      const auto [found, is_new] = numbers.try_emplace(subset, static_cast<std::uint32_t>(subsets.size()));
      if (is_new) subsets.push_back(std::move(subset));
      return found->second;
    };
    CharAutomaton result;
    std::size_t work = 0;
    number_of(closure({begin}));
    for (std::size_t i = 0; i < subsets.size(); ++i) {
      const std::vector<std::uint32_t> subset = subsets[i];
      CharAutomaton::State state;
      std::vector<char32_t> cuts;
      for (const std::uint32_t s : subset) {
        state.accepts |= states_[s].accepts;
        for (const CharRange& range : states_[s].ranges) {
          if (range.first > range.last) continue;
          cuts.push_back(range.first);
          cuts.push_back(range.last + 1);
        }
      }
      std::ranges::sort(cuts);
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
        work += subset.size();
        spend_work(std::ssize(subset));
        if (work > kMaxSubsetWork) return std::nullopt;
        std::vector<std::uint32_t> reached;
        for (const std::uint32_t s : subset) {
          const bool reads = std::ranges::any_of(
              states_[s].ranges, [&](const CharRange& r) { return r.first <= cuts[k] && cuts[k] <= r.last; });
          if (reads) reached.push_back(states_[s].targets[0]);
        }
        if (reached.empty()) continue;
        reached = closure(std::move(reached));
        work += reached.size();
        const std::uint32_t target = number_of(std::move(reached));
        const bool continues = !state.edges.empty() && state.edges.back().target == target &&
                               state.edges.back().range.last + 1 == cuts[k];
        if (continues) {
          state.edges.back().range.last = cuts[k + 1] - 1;
        } else {
          state.edges.push_back({{cuts[k], cuts[k + 1] - 1}, target});
        }
      }
      if (subsets.size() > kMaxPatternStates) return std::nullopt;
      result.states.push_back(std::move(state));
    }
    trim(result);
    return result;
  }

 private:
  /// With all that is reached without reading; only states that read or accept are kept.
  [[nodiscard]] std::vector<std::uint32_t> closure(std::vector<std::uint32_t> work) const {
    spend_work(std::ssize(states_) / 64 + 4 * std::ssize(work));
    std::vector<bool> seen(states_.size());
    std::vector<std::uint32_t> kept;
    while (!work.empty()) {
      const std::uint32_t s = work.back();
      work.pop_back();
      if (seen[s]) continue;
      seen[s] = true;
      if (states_[s].accepts || !states_[s].ranges.empty()) {
        kept.push_back(s);
      } else {
        spend_work(std::ssize(states_[s].targets));
        work.insert(work.end(), states_[s].targets.begin(), states_[s].targets.end());
      }
    }
    std::ranges::sort(kept);
    return kept;
  }

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

/// One alternative of the pattern with its anchors turned into the absence of `anything`. Nothing: an anchor in the
/// middle. `outer_*`: anchored from outside the group.
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
