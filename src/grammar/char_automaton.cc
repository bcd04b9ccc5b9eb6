#include "grammar/char_automaton.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/work_budget.h"

namespace baleen {
namespace {

/// Of a product: a search in a map and perhaps a new state.
constexpr std::int64_t kWorkPerEdge = 20;

/// Builds the product of an automaton with some other state machine: `step(other, range)` splits a range into
/// parts with the other's next state; `accepts(other)` says whether that one would accept.
template <class Step, class Accepts>
std::optional<CharAutomaton> product(const CharAutomaton& automaton, const Step& step,
                                     const Accepts& accepts) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers = {{{0, 0}, 0}};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs = {{0, 0}};
  CharAutomaton result;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto [mine, other] = pairs[i];
    CharAutomaton::State state{.accepts = automaton.states[mine].accepts && accepts(other)};
    for (const CharEdge& edge : automaton.states[mine].edges) {
      for (const CharEdge& part : step(other, edge.range)) {
        spend_work(kWorkPerEdge);
        const std::pair pair(edge.target, part.target);
        const auto [found, is_new] = numbers.try_emplace(pair, static_cast<std::uint32_t>(pairs.size()));
        if (is_new) pairs.push_back(pair);
        state.edges.push_back({part.range, found->second});
      }
    }
    if (pairs.size() > kMaxCharStates) return std::nullopt;
    result.states.push_back(std::move(state));
  }
  trim(result);
  return result;
}

/// `range` cut at single characters that go elsewhere; the rest goes to `otherwise`, if anywhere.
std::vector<CharEdge> cut_out(CharRange range,
                              std::vector<std::pair<char32_t, std::optional<std::uint32_t>>> special,
                              std::optional<std::uint32_t> otherwise) {
  std::ranges::sort(special);
  std::vector<CharEdge> parts;
  char32_t from = range.first;
  for (const auto& [character, target] : special) {
    if (character < from || character > range.last) continue;
    if (otherwise && character > from) parts.push_back({{from, character - 1}, *otherwise});
    if (target) parts.push_back({{character, character}, *target});
    from = character + 1;
  }
  if (otherwise && from <= range.last) parts.push_back({{from, range.last}, *otherwise});
  return parts;
}

struct Branch {
  std::map<char32_t, std::uint32_t> children;
  bool is_word = false;
};

std::vector<Branch> trie_of(std::span<const std::u32string> words) {
  std::vector<Branch> trie(1);
  for (const std::u32string& word : words) {
    spend_work(kWorkPerEdge * std::ssize(word));
    std::uint32_t at = 0;
    for (const char32_t c : word) {
      const auto [child, is_new] = trie[at].children.try_emplace(c, static_cast<std::uint32_t>(trie.size()));
      at = child->second;
      if (is_new) trie.emplace_back();
    }
    trie[at].is_word = true;
  }
  return trie;
}

}  // namespace

void trim(CharAutomaton& automaton) {
  const std::size_t n = automaton.states.size();
  std::vector<std::vector<std::uint32_t>> sources(n);
  std::vector<std::uint32_t> work;
  std::vector<bool> useful(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (const CharEdge& edge : automaton.states[i].edges) sources[edge.target].push_back(i);
    if (automaton.states[i].accepts) {
      useful[i] = true;
      work.push_back(i);
    }
  }
  while (!work.empty()) {
    const std::uint32_t at = work.back();
    work.pop_back();
    for (const std::uint32_t source : sources[at]) {
      if (useful[source]) continue;
      useful[source] = true;
      work.push_back(source);
    }
  }
  std::vector<std::uint32_t> number(n, kNoNode);
  std::vector<std::uint32_t> kept = {0};
  number[0] = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    std::vector<CharEdge>& edges = automaton.states[kept[i]].edges;
    std::erase_if(edges, [&](const CharEdge& edge) { return !useful[edge.target]; });
    for (CharEdge& edge : edges) {
      if (number[edge.target] == kNoNode) {
        number[edge.target] = static_cast<std::uint32_t>(kept.size());
        kept.push_back(edge.target);
      }
      edge.target = number[edge.target];
    }
  }
  std::vector<CharAutomaton::State> states;
  for (const std::uint32_t i : kept) states.push_back(std::move(automaton.states[i]));
  automaton.states = std::move(states);
}

CharAutomaton any_text() { return {{{.accepts = true, .edges = {{{0, kLastCharacter}, 0}}}}}; }

std::optional<CharAutomaton> without_word(const CharAutomaton& automaton, std::u32string_view word) {
  // The state is how much of the word stands at the end of the text (Knuth, Morris, Pratt).
  const auto longest_end = [word](std::size_t matched, char32_t next) {
    std::u32string text(word.substr(0, matched));
    text += next;
    std::size_t size = std::min(text.size(), word.size());
    while (!text.ends_with(word.substr(0, size))) --size;
    return size;
  };
  return product(
      automaton,
      [&](std::uint32_t matched, CharRange range) {
        std::vector<std::pair<char32_t, std::optional<std::uint32_t>>> special;
        for (std::size_t i = 0; i <= matched; ++i) {
          const std::size_t end = longest_end(matched, word[i]);
          const std::pair<char32_t, std::optional<std::uint32_t>> entry(
              word[i], end < word.size() ? std::optional(static_cast<std::uint32_t>(end)) : std::nullopt);
          if (std::ranges::find(special, word[i], [](const auto& e) { return e.first; }) == special.end())
            special.push_back(entry);
        }
        return cut_out(range, std::move(special), 0);
      },
      [](std::uint32_t) { return true; });
}

std::optional<CharAutomaton> except_words(const CharAutomaton& automaton,
                                          std::span<const std::u32string> words) {
  const std::vector<Branch> trie = trie_of(words);
  // kOff stands for having left the trie.
  constexpr std::uint32_t kOff = kNoNode;
  return product(
      automaton,
      [&](std::uint32_t at, CharRange range) {
        if (at == kOff) return std::vector<CharEdge>{{range, kOff}};
        spend_work(4 * std::ssize(trie[at].children));
        return cut_out(range, {trie[at].children.begin(), trie[at].children.end()}, kOff);
      },
      [&](std::uint32_t at) { return at == kOff || !trie[at].is_word; });
}

std::optional<CharAutomaton> only_words(std::span<const std::u32string> words) {
  const std::vector<Branch> trie = trie_of(words);
  if (trie.size() > kMaxCharStates) return std::nullopt;
  CharAutomaton automaton;
  for (const Branch& branch : trie) {
    CharAutomaton::State state{.accepts = branch.is_word};
    for (const auto& [character, child] : branch.children)
      state.edges.push_back({{character, character}, child});
    automaton.states.push_back(std::move(state));
  }
  return automaton;
}

std::optional<CharAutomaton> in_both(const CharAutomaton& a, const CharAutomaton& b) {
  return product(
      a,
      [&](std::uint32_t at, CharRange range) {
        std::vector<CharEdge> parts;
        for (const CharEdge& edge : b.states[at].edges) {
          const CharRange both = {std::max(range.first, edge.range.first),
                                  std::min(range.last, edge.range.last)};
          if (both.first <= both.last) parts.push_back({both, edge.target});
        }
        return parts;
      },
      [&](std::uint32_t at) { return b.states[at].accepts; });
}

CharAutomaton complement(const CharAutomaton& automaton) {
  CharAutomaton result = automaton;
  const auto sink = static_cast<std::uint32_t>(result.states.size());
  result.states.push_back({});
  for (CharAutomaton::State& state : result.states) {
    spend_work(1 + std::ssize(state.edges));
    state.accepts = !state.accepts;
    std::vector<CharEdge> edges;
    char32_t from = 0;
    for (const CharEdge& edge : state.edges) {
      if (edge.range.first > from) edges.push_back({{from, edge.range.first - 1}, sink});
      edges.push_back(edge);
      from = edge.range.last + 1;
    }
    if (from <= kLastCharacter) edges.push_back({{from, kLastCharacter}, sink});
    state.edges = std::move(edges);
  }
  trim(result);
  return result;
}

std::vector<bool> accepting_all(const CharAutomaton& automaton) {
  const std::size_t n = automaton.states.size();
  std::vector<bool> all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = automaton.states[i].accepts;
  // A state falls out when a character is missing or leads to one that fell out; until none does.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < n; ++i) {
      if (!all[i]) continue;
      spend_work(1);
      char32_t from = 0;
      for (const CharEdge& edge : automaton.states[i].edges) {
        if (edge.range.first != from || !all[edge.target]) break;
        from = edge.range.last + 1;
      }
      if (from == kLastCharacter + 1) continue;
      all[i] = false;
      changed = true;
    }
  }
  return all;
}

bool accepts(const CharAutomaton& automaton, std::u32string_view text) {
  std::uint32_t state = 0;
  for (const char32_t c : text) {
    const std::vector<CharEdge>& edges = automaton.states[state].edges;
    const auto edge = std::ranges::find_if(
        edges, [c](const CharEdge& e) { return e.range.first <= c && c <= e.range.last; });
    if (edge == edges.end()) return false;
    state = edge->target;
  }
  return automaton.states[state].accepts;
}

std::u32string to_characters(std::string_view text) {
  std::u32string characters;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    BALEEN_CHECK(i + size <= text.size());
    static constexpr unsigned kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    char32_t character = lead & kLeadBits[size];
    for (std::size_t k = 1; k < size; ++k)
      character = character << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    characters += character;
    i += size;
  }
  return characters;
}

}  // namespace baleen
