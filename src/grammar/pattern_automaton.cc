#include "grammar/pattern_automaton.h"

#include <algorithm>
#include <compare>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/work_budget.h"

namespace baleen {
namespace {

using Kind = PatternNode::Kind;

constexpr std::size_t kMaxNfaStates = 20'000;
/// States looked at while determinising, over all subsets: bounds the time to a fraction of a second.
constexpr std::size_t kMaxSubsetWork = 3'000'000;
/// Deterministic states of a pattern alone, before forbidden words multiply them.
constexpr std::size_t kMaxPatternStates = 3'000;

constexpr const char* kTooComplex = "the pattern is too complex; shorter repetitions may help";

const PatternNode& any_character() {
  static const PatternNode node{.kind = Kind::kClass, .ranges = {{0, kLastCharacter}}};
  return node;
}

bool contains(const PatternNode& node, Kind kind) {
  return node.kind == kind ||
         std::ranges::any_of(node.parts, [kind](const PatternNode& part) { return contains(part, kind); });
}

/// Whether nothing can be read before a ^.
bool begins_anchored(const PatternNode& node) {
  if (node.kind == Kind::kBegin) return true;
  if (node.kind == Kind::kChoice) return std::ranges::all_of(node.parts, begins_anchored);
  if (node.kind != Kind::kSequence) return false;
  for (const PatternNode& part : node.parts) {
    if (begins_anchored(part)) return true;
    if (!is_assertion(part)) return false;
  }
  return false;
}

/// What a look ahead has to know of the text before it.
struct Before {
  bool at_begin = false;
  bool after_word = false;
  auto operator<=>(const Before&) const = default;
};

/// What one compilation shares: its bound, and the automata of looks ahead, which threads carry along as
/// obligations on the rest of the text.
class PatternCompiler {
 public:
  /// An automaton and a state of it: the rest of the text must be accepted from there.
  using Obligation = std::pair<std::uint32_t, std::uint32_t>;
  using Obligations = std::vector<Obligation>;  ///< sorted

  PatternCompiler() {
    // `$`: nothing may follow.
    looks_.push_back({.automaton = {.states = {{.accepts = true, .edges = {}}}}, .all = {false}});
    static_cast<void>(number_of({}));
  }

  static constexpr std::uint32_t kEnd = 0;            ///< the automaton of `$`
  static constexpr std::uint32_t kNoObligations = 0;  ///< the number of the empty set of them

  /// With anything after it; with anything before it, where `is_search`.
  std::optional<CharAutomaton> found_in(const PatternNode& node, Before before, bool is_search);
  /// That end with `node`, from their beginning.
  std::optional<CharAutomaton> ending_with(const PatternNode& node);

  std::optional<std::uint32_t> look_ahead(const PatternNode& look, Before before) {
    if (contains(look, Kind::kBehind)) {  // it would have to know the text before the look ahead
      refuse("the pattern looks behind within a look ahead, which is not supported");
      return std::nullopt;
    }
    const auto [known, is_new] = ahead_.try_emplace({&look, before}, 0);
    if (!is_new) return known->second;
    std::optional<CharAutomaton> automaton = found_in(look.parts[0], before, false);
    if (!automaton) return std::nullopt;
    if (look.least == 1) automaton = complement(*automaton);
    std::vector<bool> all = accepting_all(*automaton);
    looks_.push_back({*std::move(automaton), std::move(all)});
    return ahead_[{&look, before}] = static_cast<std::uint32_t>(looks_.size() - 1);
  }

  [[nodiscard]] const Obligations& obligations(std::uint32_t number) const { return sets_[number]; }
  [[nodiscard]] const CharAutomaton& automaton(std::uint32_t look) const { return looks_[look].automaton; }

  /// The set with one more. Nothing: it cannot be met.
  std::optional<std::uint32_t> with(std::uint32_t number, std::uint32_t look) {
    if (looks_[look].automaton.is_empty()) return std::nullopt;
    if (looks_[look].all[0]) return number;
    Obligations set = sets_[number];
    const Obligation added(look, 0);
    const auto place = std::ranges::lower_bound(set, added);
    if (place == set.end() || *place != added) set.insert(place, added);
    return number_of(std::move(set));
  }
  /// The set after a character. Nothing: it is not met.
  std::optional<std::uint32_t> after(std::uint32_t number, char32_t c) {
    if (number == kNoObligations) return number;
    Obligations set;
    for (const auto& [look, state] : Obligations(sets_[number])) {
      const std::vector<CharEdge>& edges = looks_[look].automaton.states[state].edges;
      const auto edge =
          std::ranges::upper_bound(edges, c, {}, [](const CharEdge& e) { return e.range.first; });
      if (edge == edges.begin() || (edge - 1)->range.last < c) return std::nullopt;
      const std::uint32_t target = (edge - 1)->target;
      if (!looks_[look].all[target]) set.emplace_back(look, target);
    }
    std::ranges::sort(set);
    set.erase(std::unique(set.begin(), set.end()), set.end());
    return number_of(std::move(set));
  }
  [[nodiscard]] bool are_met_at_end(std::uint32_t number) const {
    return std::ranges::all_of(sets_[number], [this](const Obligation& one) {
      return looks_[one.first].automaton.states[one.second].accepts;
    });
  }

  /// Spends work. False: there is none left.
  bool spend(std::size_t work) {
    work_ += work;
    spend_work(static_cast<std::int64_t>(work));
    return work_ <= kMaxSubsetWork;
  }
  void refuse(std::string what) {
    if (sentence_.empty()) sentence_ = std::move(what);
  }
  [[nodiscard]] std::string sentence() const { return sentence_.empty() ? kTooComplex : sentence_; }

 private:
  std::uint32_t number_of(Obligations set) {
    const auto [found, is_new] = numbers_.try_emplace(set, static_cast<std::uint32_t>(sets_.size()));
    if (is_new) sets_.push_back(std::move(set));
    return found->second;
  }

  struct Look {
    CharAutomaton automaton;
    std::vector<bool> all;  ///< accepting_all of it
  };
  std::deque<Look> looks_;
  std::map<std::pair<const PatternNode*, Before>, std::uint32_t> ahead_;
  std::map<Obligations, std::uint32_t> numbers_;
  std::deque<Obligations> sets_;
  std::size_t work_ = 0;
  std::string sentence_;
};

/// Thompson's construction, from the end to the beginning as GraphBuilder does it, and its subsets.
class Nfa {
 public:
  explicit Nfa(PatternCompiler& compiler) : compiler_(compiler) {}

  struct State {
    std::vector<CharRange>
        ranges;  ///< read one of these and go to targets[0]; none: go to all targets at once
    std::vector<std::uint32_t> targets;
    bool accepts = false;
    const PatternNode* assertion = nullptr;  ///< passed only where it holds; then `ranges` is empty
  };

  std::uint32_t add(State state) {
    if (states_.size() >= kMaxNfaStates) {
      overflowed_ = true;
      return 0;
    }
    states_.push_back(std::move(state));
    return static_cast<std::uint32_t>(states_.size() - 1);
  }

  /// Any text, then `next`.
  std::uint32_t add_any_text(std::uint32_t next) {
    const std::uint32_t loop = add({.targets = {next}});
    const std::uint32_t reads = add({.ranges = any_character().ranges, .targets = {loop}});
    if (!overflowed_) states_[loop].targets.push_back(reads);
    return loop;
  }

  /// The end of the pattern, after which anything may come: a thread without obligations there accepts all.
  std::uint32_t add_found() {
    const std::uint32_t loop = add_any_text(add({.accepts = true}));
    found_ = loop + 1;  // the state that reads; the end is the one before the loop
    return loop;
  }

  /// Texts of `node`, then `next`. `node` outlives this.
  std::uint32_t build(const PatternNode& node, std::uint32_t next) {
    if (overflowed_) return 0;
    switch (node.kind) {
      case Kind::kClass:
        return add({.ranges = node.ranges.empty() ? std::vector<CharRange>{{1, 0}} : node.ranges,
                    .targets = {next}});
      case Kind::kSequence:
        for (std::size_t i = node.parts.size(); i-- > 0;) next = build(node.parts[i], next);
        return next;
      case Kind::kChoice: {
        State split;
        for (const PatternNode& part : node.parts) split.targets.push_back(build(part, next));
        return add(std::move(split));
      }
      case Kind::kRepeat:
        return build_repeat(node, next);
      case Kind::kBehind:
        behind_.push_back({&node, {}});
        return add({.targets = {next}, .assertion = &node});
      case Kind::kBoundary:
      case Kind::kAhead:
        has_boundaries_ |= contains(node, Kind::kBoundary);
        return add({.targets = {next}, .assertion = &node});
      case Kind::kBegin:
      case Kind::kEnd:
        return add({.targets = {next}, .assertion = &node});
    }
    return next;
  }

  std::optional<CharAutomaton> determinise(std::uint32_t begin, Before before) {
    if (overflowed_) return std::nullopt;
    for (Behind& behind : behind_) {
      std::optional<CharAutomaton> automaton = compiler_.ending_with(behind.look->parts[0]);
      if (!automaton) return std::nullopt;
      behind.automaton = *std::move(automaton);
    }
    std::map<Place, std::uint32_t> numbers;
    std::vector<Place> places;
    const auto number_of = [&](Place place) {
      const auto [found, is_new] = numbers.try_emplace(place, static_cast<std::uint32_t>(places.size()));
      if (is_new) places.push_back(std::move(place));
      return found->second;
    };
    CharAutomaton result;
    Place first{.before = before, .behind = std::vector<std::uint32_t>(behind_.size())};
    first.threads = closure({{begin, PatternCompiler::kNoObligations}}, first, std::nullopt);
    number_of(without_past(std::move(first)));
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Place place = places[i];
      // The end of the text is no word's, so a boundary is there after a word.
      const Threads at_end = resolved(place, place.before.after_word);
      const Threads before_word = has_boundaries_ ? resolved(place, !place.before.after_word) : at_end;
      CharAutomaton::State state{.accepts = std::ranges::any_of(at_end, [this](const Thread& thread) {
                                   return states_[thread.first].accepts &&
                                          compiler_.are_met_at_end(thread.second);
                                 })};
      const std::vector<char32_t> cuts = cuts_of(place, before_word, at_end);
      for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
        const bool is_word = has_boundaries_ && holds(word_characters(), cuts[k]);
        const std::optional<Place> reached = after(place, is_word ? before_word : at_end, cuts[k], is_word);
        if (!reached) return std::nullopt;
        if (reached->threads.empty()) continue;
        const std::uint32_t target = number_of(*reached);
        const bool continues = !state.edges.empty() && state.edges.back().target == target &&
                               state.edges.back().range.last + 1 == cuts[k];
        if (continues) {
          state.edges.back().range.last = cuts[k + 1] - 1;
        } else {
          state.edges.push_back({{cuts[k], cuts[k + 1] - 1}, target});
        }
      }
      if (places.size() > kMaxPatternStates || failed_) return std::nullopt;
      result.states.push_back(std::move(state));
    }
    if (failed_) return std::nullopt;
    trim(result);
    return result;
  }

 private:
  /// A state, and the number of the obligations that the rest of the text has besides.
  using Thread = std::pair<std::uint32_t, std::uint32_t>;
  using Threads = std::vector<Thread>;

  /// A state of the result. A thread that waits at a boundary is decided by the next character.
  struct Place {
    Threads threads;
    Before before;
    std::vector<std::uint32_t> behind;  ///< where the automata of looks behind stand; kGone: nowhere any more
    auto operator<=>(const Place&) const = default;
  };
  static constexpr std::uint32_t kGone = 0xFFFFFFFF;

  struct Behind {
    const PatternNode* look = nullptr;
    CharAutomaton automaton;
  };

  std::uint32_t build_repeat(const PatternNode& node, std::uint32_t next) {
    if (node.most == kNoLimit) {
      const std::uint32_t loop = add({.targets = {next}});
      const std::uint32_t round = build(node.parts[0], loop);
      if (overflowed_) return 0;
      states_[loop].targets.push_back(round);
      next = loop;
    } else {
      const std::uint32_t end = next;
      for (std::uint32_t i = node.least; i < node.most && !overflowed_; ++i)
        next = add({.targets = {end, build(node.parts[0], next)}});
    }
    for (std::uint32_t i = 0; i < node.least && !overflowed_; ++i) next = build(node.parts[0], next);
    return next;
  }

  static bool holds(const std::vector<CharRange>& ranges, char32_t c) {
    return std::ranges::any_of(ranges, [c](const CharRange& r) { return r.first <= c && c <= r.last; });
  }

  static std::uint32_t target_of(const CharAutomaton& automaton, std::uint32_t state, char32_t c) {
    if (state == kGone) return kGone;
    for (const CharEdge& edge : automaton.states[state].edges) {
      if (edge.range.first <= c && c <= edge.range.last) return edge.target;
    }
    return kGone;
  }

  /// The place after `c`. Nothing: too much work.
  std::optional<Place> after(const Place& place, const Threads& readers, char32_t c, bool is_word) {
    if (!compiler_.spend(readers.size())) return std::nullopt;
    Threads reached;
    for (const auto& [s, obligations] : readers) {
      if (!holds(states_[s].ranges, c)) continue;
      const std::optional<std::uint32_t> rest = compiler_.after(obligations, c);
      if (rest) reached.emplace_back(states_[s].targets[0], *rest);
    }
    Place next{.before = {.at_begin = false, .after_word = is_word}};
    if (reached.empty()) return next;
    for (std::size_t i = 0; i < behind_.size(); ++i)
      next.behind.push_back(target_of(behind_[i].automaton, place.behind[i], c));
    next.threads = closure(std::move(reached), next, std::nullopt);
    if (failed_ || !compiler_.spend(next.threads.size())) return std::nullopt;
    return without_past(std::move(next));
  }

  /// Once the pattern was found the past matters no more.
  [[nodiscard]] Place without_past(Place place) const {
    if (found_ == kGone || place.threads != found_threads()) return place;
    return {.threads = std::move(place.threads), .behind = std::vector<std::uint32_t>(behind_.size(), kGone)};
  }

  /// Where a range begins or has ended, in order; where boundaries matter, words too.
  [[nodiscard]] std::vector<char32_t> cuts_of(const Place& place, const Threads& before_word,
                                              const Threads& before_other) const {
    std::vector<char32_t> cuts;
    const auto add = [&](const CharRange& range) {
      if (range.first > range.last) return;
      cuts.push_back(range.first);
      cuts.push_back(range.last + 1);
    };
    std::vector<std::uint32_t> seen;  // numbers of obligations
    const auto add_thread = [&](const Thread& thread) {
      std::ranges::for_each(states_[thread.first].ranges, add);
      if (thread.second == PatternCompiler::kNoObligations) return;
      if (std::ranges::find(seen, thread.second) != seen.end()) return;
      seen.push_back(thread.second);
      for (const auto& [look, state] : compiler_.obligations(thread.second)) {
        for (const CharEdge& edge : compiler_.automaton(look).states[state].edges) add(edge.range);
      }
    };
    std::ranges::for_each(before_other, add_thread);
    if (has_boundaries_) {
      std::ranges::for_each(before_word, add_thread);
      std::ranges::for_each(word_characters(), add);
    }
    for (std::size_t i = 0; i < behind_.size(); ++i) {
      if (place.behind[i] == kGone) continue;
      for (const CharEdge& edge : behind_[i].automaton.states[place.behind[i]].edges) add(edge.range);
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    return cuts;
  }

  /// The threads of a place with its boundaries passed or dropped.
  [[nodiscard]] Threads resolved(const Place& place, bool is_boundary) {
    return has_boundaries_ ? closure(place.threads, place, is_boundary) : place.threads;
  }

  /// Past an assertion: with what obligations. Nothing: not past it.
  std::optional<std::uint32_t> past(const PatternNode& assertion, const Thread& thread, const Place& place,
                                    std::optional<bool> is_boundary) {
    switch (assertion.kind) {
      case Kind::kBegin:
        return place.before.at_begin ? std::optional(thread.second) : std::nullopt;
      case Kind::kEnd:
        return compiler_.with(thread.second, PatternCompiler::kEnd);
      case Kind::kAhead: {
        const std::optional<std::uint32_t> look = compiler_.look_ahead(assertion, place.before);
        if (look) return compiler_.with(thread.second, *look);
        failed_ = true;
        return std::nullopt;
      }
      case Kind::kBehind: {
        const auto behind = std::ranges::find(behind_, &assertion, &Behind::look);
        const std::uint32_t state = place.behind[static_cast<std::size_t>(behind - behind_.begin())];
        const bool is_there = state != kGone && behind->automaton.states[state].accepts;
        return is_there == (assertion.least == 0) ? std::optional(thread.second) : std::nullopt;
      }
      default:
        return *is_boundary == (assertion.least == 0) ? std::optional(thread.second) : std::nullopt;
    }
  }

  /// With all that is reached without reading; only states that read or accept are kept, and boundaries that
  /// cannot be decided yet.
  Threads closure(Threads work, const Place& place, std::optional<bool> is_boundary) {
    seen_.resize(states_.size());
    ++visit_;
    std::set<Thread> seen_with_obligations;
    const auto is_new = [&](const Thread& thread) {
      if (thread.second != PatternCompiler::kNoObligations)
        return seen_with_obligations.insert(thread).second;
      return std::exchange(seen_[thread.first], visit_) != visit_;
    };
    Threads kept;
    std::size_t visited = 0;
    while (!work.empty() && !failed_) {
      const Thread thread = work.back();
      work.pop_back();
      if (!is_new(thread)) continue;
      ++visited;
      const State& state = states_[thread.first];
      const bool waits =
          state.assertion != nullptr && state.assertion->kind == Kind::kBoundary && !is_boundary;
      if (waits || state.accepts || !state.ranges.empty()) {
        kept.push_back(thread);
      } else if (state.assertion == nullptr) {
        for (const std::uint32_t target : state.targets) work.emplace_back(target, thread.second);
      } else if (const auto obligations = past(*state.assertion, thread, place, is_boundary)) {
        work.emplace_back(state.targets[0], *obligations);
      }
    }
    failed_ |= !compiler_.spend(1 + visited / 4);
    std::ranges::sort(kept);
    // Where the pattern was found without further obligations nothing else matters.
    if (found_ != kGone && std::ranges::binary_search(kept, Thread(found_, PatternCompiler::kNoObligations)))
      return found_threads();
    // A thread with obligations says nothing new beside the same one without.
    Threads fewer;
    for (const Thread& thread : kept) {
      const bool is_free = !fewer.empty() && fewer.back().first == thread.first &&
                           fewer.back().second == PatternCompiler::kNoObligations;
      if (!is_free) fewer.push_back(thread);
    }
    return fewer;
  }

  [[nodiscard]] Threads found_threads() const {
    return {{found_ - 2, PatternCompiler::kNoObligations}, {found_, PatternCompiler::kNoObligations}};
  }

  PatternCompiler& compiler_;
  std::vector<State> states_;
  std::vector<Behind> behind_;
  std::vector<std::uint64_t> seen_;  ///< for each state, the last closure that came by without obligations
  std::uint64_t visit_ = 0;
  std::uint32_t found_ = kGone;  ///< the state that reads on after the pattern was found
  bool has_boundaries_ = false;
  bool overflowed_ = false;
  bool failed_ = false;
};

std::optional<CharAutomaton> PatternCompiler::found_in(const PatternNode& node, Before before,
                                                       bool is_search) {
  Nfa nfa(*this);
  std::uint32_t begin = nfa.build(node, nfa.add_found());
  if (is_search && !begins_anchored(node)) begin = nfa.add_any_text(begin);
  return nfa.determinise(begin, before);
}

std::optional<CharAutomaton> PatternCompiler::ending_with(const PatternNode& node) {
  for (const Kind kind : {Kind::kEnd, Kind::kBoundary, Kind::kAhead, Kind::kBehind}) {
    if (!contains(node, kind)) continue;
    refuse("the pattern looks around, or for a boundary, within a look behind, which is not supported");
    return std::nullopt;
  }
  Nfa nfa(*this);
  const std::uint32_t begin = nfa.build(node, nfa.add({.accepts = true}));
  return nfa.determinise(nfa.add_any_text(begin), {.at_begin = true});
}

}  // namespace

Result<CharAutomaton> pattern_automaton(const PatternNode& pattern) {
  PatternCompiler compiler;
  std::optional<CharAutomaton> automaton = compiler.found_in(pattern, {.at_begin = true}, true);
  if (!automaton) return failure("{}", compiler.sentence());
  return *std::move(automaton);
}

}  // namespace baleen
