// Characters to bytes: UTF-8 and the escapes of JSON.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/work_budget.h"
#include "chat/python_json.h"
#include "grammar/char_automaton.h"

namespace baleen {
namespace {

struct ByteRange {
  std::uint8_t first = 0, last = 0;
  auto operator<=>(const ByteRange&) const = default;
};

/// Bytes that stand for some characters, and the node after them.
struct Sequence {
  std::vector<ByteRange> bytes;
  NodeId target = kNoNode;
  auto operator<=>(const Sequence&) const = default;
};

std::vector<std::uint8_t> utf8_bytes_of(char32_t c) {
  const auto tail = [c](int shift) { return static_cast<std::uint8_t>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return {static_cast<std::uint8_t>(c)};
  if (c < 0x800) return {static_cast<std::uint8_t>(0xC0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<std::uint8_t>(0xE0 | c >> 12), tail(6), tail(0)};
  return {static_cast<std::uint8_t>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

/// Cuts a range into pieces whose UTF-8 forms are products of byte ranges.
void append_utf8(CharRange range, NodeId target, std::vector<Sequence>& out) {
  const auto cut_after = [&](char32_t last) {
    append_utf8({range.first, last}, target, out);
    append_utf8({last + 1, range.last}, target, out);
  };
  if (range.first > range.last) return;
  static constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;
  if (range.first <= kLastSurrogate && range.last >= kFirstSurrogate) {
    if (range.first < kFirstSurrogate) append_utf8({range.first, kFirstSurrogate - 1}, target, out);
    if (range.last > kLastSurrogate) append_utf8({kLastSurrogate + 1, range.last}, target, out);
    return;
  }
  for (const char32_t last_of_size : {0x7F, 0x7FF, 0xFFFF}) {
    if (range.first <= last_of_size && range.last > last_of_size) return cut_after(last_of_size);
  }
  if (range.last > 0x7F) {
    for (const char32_t low : {0x3F, 0xFFF, 0x3FFFF}) {  // the bits of the last one, two, three bytes
      if ((range.first & ~low) == (range.last & ~low)) break;
      if ((range.first & low) != 0) return cut_after(range.first | low);
      if ((range.last & low) != low) return cut_after((range.last & ~low) - 1);
    }
  }
  const std::vector<std::uint8_t> first = utf8_bytes_of(range.first), last = utf8_bytes_of(range.last);
  Sequence sequence{.target = target};
  for (std::size_t i = 0; i < first.size(); ++i) sequence.bytes.push_back({first[i], last[i]});
  out.push_back(std::move(sequence));
}

/// Of characters already read; sorted, disjoint.
using CountRanges = std::vector<CountRange>;

struct Lengths {
  std::vector<std::uint64_t> shortest;  ///< from every state to an end
  std::uint64_t longest = 0;            ///< length of the longest text; kUnbounded: there is no longest
};

/// Of an automaton that is not empty.
Lengths lengths_of(const CharAutomaton& automaton) {
  const std::size_t n = automaton.states.size();
  std::vector<std::vector<std::uint32_t>> sources(n);
  std::vector<std::uint32_t> order, num_targets(n);  // from the ends backwards
  Lengths lengths{.shortest = std::vector<std::uint64_t>(n, kUnbounded)};
  for (std::uint32_t i = 0; i < n; ++i) {
    spend_work(1 + std::ssize(automaton.states[i].edges));
    for (const CharEdge& edge : automaton.states[i].edges) sources[edge.target].push_back(i);
    num_targets[i] = static_cast<std::uint32_t>(automaton.states[i].edges.size());
    if (!automaton.states[i].accepts) continue;
    lengths.shortest[i] = 0;
    order.push_back(i);
  }
  for (std::size_t k = 0; k < order.size(); ++k) {
    for (const std::uint32_t source : sources[order[k]]) {
      if (lengths.shortest[source] != kUnbounded) continue;
      lengths.shortest[source] = lengths.shortest[order[k]] + 1;
      order.push_back(source);
    }
  }
  // The longest way from every state, of those first that lead nowhere; what is left leads into a loop.
  std::vector<std::uint64_t> longest(n);
  order.clear();
  for (std::uint32_t i = 0; i < n; ++i) {
    if (num_targets[i] == 0) order.push_back(i);
  }
  for (std::size_t k = 0; k < order.size(); ++k) {
    for (const std::uint32_t source : sources[order[k]]) {
      longest[source] = std::max(longest[source], longest[order[k]] + 1);
      if (--num_targets[source] == 0) order.push_back(source);
    }
  }
  lengths.longest = order.size() == n ? longest[0] : kUnbounded;
  return lengths;
}

/// For every state the counts at which it may be entered: those from which a text of `least` to `most`
/// characters can be finished. Nothing: more than kMaxCountRanges, or more work than kMaxCountWork.
std::optional<std::vector<CountRanges>> entry_counts(const CharAutomaton& automaton, const Lengths& lengths,
                                                     std::uint64_t least, std::uint64_t most) {
  static constexpr std::uint64_t kMaxCountWork = 20'000'000;
  const std::size_t n = automaton.states.size();
  // From `least` on the shortest way to an end decides.
  std::vector<CountRanges> entries(n);
  std::vector<bool> may_enter(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (most != kUnbounded && least + lengths.shortest[i] > most) continue;
    may_enter[i] = true;
    entries[i].push_back({least, most == kUnbounded ? kUnbounded : most - lengths.shortest[i]});
  }
  // Below, whether a state behind it may be entered; until that is the same for all states and all lower
  // counts.
  std::size_t num_ranges = n;
  std::uint64_t work = 0;
  for (std::uint64_t count = least; count-- > 0;) {
    std::vector<bool> before(n);
    std::uint64_t looked_at = n;
    for (std::size_t i = 0; i < n; ++i) {
      for (const CharEdge& edge : automaton.states[i].edges) {
        ++looked_at;
        before[i] = may_enter[edge.target];
        if (before[i]) break;
      }
    }
    spend_work(static_cast<std::int64_t>(looked_at));
    work += looked_at;
    const bool is_settled = before == may_enter;
    const std::uint64_t first = is_settled ? 0 : count;
    for (std::size_t i = 0; i < n; ++i) {
      if (!before[i]) continue;
      if (!entries[i].empty() && entries[i].back().first == count + 1) {
        entries[i].back().first = first;
      } else {
        entries[i].push_back({first, count});
        ++num_ranges;
      }
    }
    if (is_settled) break;
    if (num_ranges > kMaxCountRanges || work > kMaxCountWork) return std::nullopt;
    may_enter = std::move(before);
  }
  for (CountRanges& ranges : entries) std::ranges::reverse(ranges);
  return entries;
}

class TextWriter {
 public:
  TextWriter(GraphBuilder& builder, const CharAutomaton& automaton, Writing writing, NodeId next)
      : builder_(builder), automaton_(automaton), writing_(writing), after_(next), end_(next) {
    if (writing != Writing::kRaw) end_ = builder.byte('"', next);
    for (std::size_t i = 0; i < automaton.states.size(); ++i) states_.push_back(builder.later());
  }

  NodeId plain() {
    const bool quoted = writing_ != Writing::kRaw;
    if (writing_ == Writing::kJsonFreely) make_escape(states_[0]);
    for (std::size_t i = 0; i < states_.size() && !builder_.overflowed(); ++i) {
      std::vector<Sequence> sequences = sequences_of(automaton_.states[i].edges, states_);
      const bool accepts = automaton_.states[i].accepts;
      if (quoted && accepts) sequences.push_back({{{'"', '"'}}, after_});
      const NodeId reads = node_for(std::move(sequences));
      builder_.set_later(states_[i], accepts && !quoted ? builder_.split({reads, end_}) : reads);
    }
    return states_[0];
  }

  NodeId counted(std::uint64_t least, std::uint64_t most, const std::vector<CountRanges>& entries) {
    const NodeId counter = builder_.counter(least, most);
    std::vector<NodeId> after;
    for (std::size_t i = 0; i < states_.size(); ++i)
      after.push_back(builder_.count(counter, states_[i], automaton_.states[i].accepts ? end_ : kNoNode));
    if (writing_ == Writing::kJsonFreely) make_escape(after[0]);
    std::vector<std::uint64_t> thresholds;
    for (std::size_t i = 0; i < states_.size() && !builder_.overflowed(); ++i) {
      std::vector<NodeId> ways;
      for (const auto& [counts, edges] : edges_by_counts(automaton_.states[i], entries)) {
        const NodeId reads = node_for(sequences_of(edges, after));
        const bool is_always = counts[0].first == 0 && counts[0].last >= most - 1;
        ways.push_back(is_always ? reads : builder_.within(counter, counts, reads));
        for (const CountRange& range : counts) {
          if (is_always) break;
          thresholds.push_back(range.first);
          if (range.last != kUnbounded) thresholds.push_back(range.last + 1);
        }
      }
      builder_.set_later(states_[i], ways.empty() ? builder_.dead() : builder_.split(std::move(ways)));
    }
    builder_.add_thresholds(counter, std::move(thresholds));
    builder_.set_begin(counter, states_[0]);
    return least == 0 && automaton_.states[0].accepts ? builder_.split({counter, end_}) : counter;
  }

 private:
  /// The edges of a state by the counts at which they may be followed: those at which their target may be
  /// entered, less the character read.
  static std::map<CountRanges, std::vector<CharEdge>> edges_by_counts(
      const CharAutomaton::State& state, const std::vector<CountRanges>& entries) {
    std::map<std::uint32_t, std::vector<CharEdge>> by_target;
    for (const CharEdge& edge : state.edges) by_target[edge.target].push_back(edge);
    std::map<CountRanges, std::vector<CharEdge>> groups;
    for (const auto& [target, edges] : by_target) {
      spend_work(std::ssize(entries[target]));
      CountRanges counts;
      for (const CountRange& range : entries[target]) {
        if (range.last == 0) continue;
        counts.push_back(
            {range.first == 0 ? 0 : range.first - 1, range.last == kUnbounded ? kUnbounded : range.last - 1});
      }
      if (counts.empty()) continue;
      std::vector<CharEdge>& group = groups[std::move(counts)];
      group.insert(group.end(), edges.begin(), edges.end());
    }
    return groups;
  }

  /// What may be read along `edges`, the end apart; `targets` are the nodes of the states after a character.
  std::vector<Sequence> sequences_of(const std::vector<CharEdge>& edges, const std::vector<NodeId>& targets) {
    std::vector<Sequence> sequences;
    for (const CharEdge& edge : edges) {
      if (writing_ == Writing::kRaw) {
        append_utf8(edge.range, targets[edge.target], sequences);
      } else {
        append_json(edge.range, targets[edge.target], sequences);
      }
    }
    if (escape_ != kNoNode) sequences.push_back({{{'\\', '\\'}}, escape_});
    return sequences;
  }

  void append_json(CharRange range, NodeId target, std::vector<Sequence>& out) const {
    static constexpr char32_t kFirstPlain = 0x20;
    char32_t from = range.first;
    const auto escape = [&](char32_t c) {
      if (writing_ == Writing::kJsonFreely) return;
      const std::string quoted = quote_python_json(std::string(1, static_cast<char>(c)));
      Sequence sequence{.target = target};
      for (const char byte : quoted.substr(1, quoted.size() - 2))
        sequence.bytes.push_back({static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte)});
      out.push_back(std::move(sequence));
    };
    for (; from < kFirstPlain && from <= range.last; ++from) escape(from);
    for (const char32_t c : {U'"', U'\\'}) {
      if (c < from || c > range.last) continue;
      if (c > from) append_utf8({from, c - 1}, target, out);
      escape(c);
      from = c + 1;
    }
    append_utf8({from, range.last}, target, out);
  }

  /// After a backslash: any escape of JSON that stands for a character or, in two, for a surrogate pair.
  void make_escape(NodeId next) {
    const auto hex = [&](std::string_view digits, NodeId then) {
      std::vector<ByteEdge> edges;
      for (const char c : digits)
        edges.push_back({static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), then});
      return builder_.bytes(std::move(edges));
    };
    const auto hex_any = [&](NodeId then) {
      return builder_.bytes({{'0', '9', then}, {'A', 'F', then}, {'a', 'f', then}});
    };
    const NodeId two = hex_any(hex_any(next)), three = hex_any(two);
    const NodeId low = builder_.literal("\\u", hex("dD", hex("cdefCDEF", two)));
    const NodeId high = hex_any(hex_any(low));
    const NodeId after_d =
        builder_.bytes({{'0', '7', two}, {'8', '9', high}, {'a', 'b', high}, {'A', 'B', high}});
    const NodeId four = builder_.bytes({{'0', '9', three},
                                        {'a', 'c', three},
                                        {'A', 'C', three},
                                        {'e', 'f', three},
                                        {'E', 'F', three},
                                        {'d', 'd', after_d},
                                        {'D', 'D', after_d}});
    std::vector<ByteEdge> edges = {{'u', 'u', four}};
    for (const char c : std::string_view("\"\\/bfnrt"))
      edges.push_back({static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), next});
    escape_ = builder_.bytes(std::move(edges));
  }

  /// A node that reads one of the sequences; where they begin alike they share their way.
  NodeId node_for(std::vector<Sequence> sequences) {
    std::ranges::sort(sequences);
    sequences.erase(std::unique(sequences.begin(), sequences.end()), sequences.end());
    const auto known = nodes_.find(sequences);
    if (known != nodes_.end()) return known->second;
    std::array<bool, 257> begins{};
    for (const Sequence& sequence : sequences) {
      begins[sequence.bytes[0].first] = true;
      begins[sequence.bytes[0].last + 1] = true;
    }
    std::vector<ByteEdge> edges;
    for (int first = 0; first < 256;) {
      int last = first;
      while (last < 255 && !begins[last + 1]) ++last;
      std::vector<Sequence> rest;
      NodeId target = kNoNode;
      for (const Sequence& sequence : sequences) {
        if (sequence.bytes[0].first > first || sequence.bytes[0].last < last) continue;
        if (sequence.bytes.size() == 1) {
          target = sequence.target;
        } else {
          rest.push_back({{sequence.bytes.begin() + 1, sequence.bytes.end()}, sequence.target});
        }
      }
      if (!rest.empty()) target = node_for(std::move(rest));
      if (target != kNoNode) {
        const bool continues =
            !edges.empty() && edges.back().last + 1 == first && edges.back().target == target;
        if (continues) {
          edges.back().last = static_cast<std::uint8_t>(last);
        } else {
          edges.push_back({static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), target});
        }
      }
      first = last + 1;
    }
    const NodeId node = builder_.bytes(std::move(edges));
    nodes_.emplace(std::move(sequences), node);
    return node;
  }

  GraphBuilder& builder_;
  const CharAutomaton& automaton_;
  Writing writing_;
  NodeId after_;  ///< what follows the text
  NodeId end_;    ///< the closing quote, if there is one, and what follows
  NodeId escape_ = kNoNode;
  std::vector<NodeId> states_;
  std::map<std::vector<Sequence>, NodeId> nodes_;
};

}  // namespace

NodeId write_text(GraphBuilder& builder, const CharAutomaton& automaton, Writing writing, NodeId next) {
  return TextWriter(builder, automaton, writing, next).plain();
}

std::optional<NodeId> write_text_counted(GraphBuilder& builder, const CharAutomaton& automaton,
                                         Writing writing, std::uint64_t least, std::uint64_t most,
                                         NodeId next) {
  if (automaton.is_empty()) return builder.dead();
  const Lengths lengths = lengths_of(automaton);
  if (lengths.shortest[0] >= least && lengths.longest <= most)
    return write_text(builder, automaton, writing, next);
  if (most == 0 && !automaton.states[0].accepts) return builder.dead();
  if (most == 0) return writing == Writing::kRaw ? next : builder.byte('"', next);
  const std::optional<std::vector<CountRanges>> entries = entry_counts(automaton, lengths, least, most);
  if (!entries) return std::nullopt;
  if ((*entries)[0].empty() || (*entries)[0].front().first > 0) return builder.dead();
  return TextWriter(builder, automaton, writing, next).counted(least, most, *entries);
}

}  // namespace baleen
