// Characters to bytes: UTF-8 and the escapes of JSON.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

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
      std::vector<Sequence> sequences = sequences_of(i, states_);
      const bool accepts = automaton_.states[i].accepts;
      if (quoted && accepts) sequences.push_back({{{'"', '"'}}, after_});
      const NodeId reads = node_for(std::move(sequences));
      builder_.set_later(states_[i], accepts && !quoted ? builder_.split({reads, end_}) : reads);
    }
    return states_[0];
  }

  NodeId counted(std::uint64_t least, std::uint64_t most) {
    const NodeId counter = builder_.counter(least, most);
    std::vector<NodeId> after;
    for (const NodeId state : states_) after.push_back(builder_.count(counter, state, end_));
    if (writing_ == Writing::kJsonFreely) make_escape(after[0]);
    for (std::size_t i = 0; i < states_.size() && !builder_.overflowed(); ++i)
      builder_.set_later(states_[i], node_for(sequences_of(i, after)));
    builder_.set_begin(counter, states_[0]);
    return least == 0 ? builder_.split({counter, end_}) : counter;
  }

 private:
  /// What may be read in a state, the end apart; `targets` are the nodes of the states after a character.
  std::vector<Sequence> sequences_of(std::size_t state, const std::vector<NodeId>& targets) {
    std::vector<Sequence> sequences;
    for (const CharEdge& edge : automaton_.states[state].edges) {
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

NodeId write_text_counted(GraphBuilder& builder, const CharAutomaton& automaton, Writing writing,
                          std::uint64_t least, std::uint64_t most, NodeId next) {
  return TextWriter(builder, automaton, writing, next).counted(least, most);
}

}  // namespace baleen
