/// Sets of texts as deterministic automata over characters (Unicode scalar values): what a JSON string or a
/// raw parameter may hold, or the digits of a bounded number. Lowered to nodes over bytes at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "grammar/graph.h"

namespace baleen {

inline constexpr char32_t kLastCharacter = 0x10FFFF;

struct CharRange {
  char32_t first = 0, last = 0;  ///< surrogates inside are never read
  bool operator==(const CharRange&) const = default;
};

struct CharEdge {
  CharRange range;
  std::uint32_t target = 0;
};

/// State 0 is the beginning. From every state an accepting one can be reached, unless no text at all is
/// accepted: then there is one state without edges.
struct CharAutomaton {
  struct State {
    bool accepts = false;
    std::vector<CharEdge> edges;  ///< sorted, disjoint
  };
  std::vector<State> states;

  [[nodiscard]] bool is_empty() const { return !states[0].accepts && states[0].edges.empty(); }
};

/// More states than that make no automaton here; a bound on time as well.
inline constexpr std::size_t kMaxCharStates = 8000;

/// Any text.
[[nodiscard]] CharAutomaton any_text();
/// The texts of `automaton` without `word` (not empty) in them. Nothing: too many states.
[[nodiscard]] std::optional<CharAutomaton> without_word(const CharAutomaton& automaton,
                                                        std::u32string_view word);
/// The texts of `automaton` that are none of `words`. Nothing: too many states.
[[nodiscard]] std::optional<CharAutomaton> except_words(const CharAutomaton& automaton,
                                                        std::span<const std::u32string> words);
/// These words alone. Nothing: too many states.
[[nodiscard]] std::optional<CharAutomaton> only_words(std::span<const std::u32string> words);
/// The texts of both. Nothing: too many states.
[[nodiscard]] std::optional<CharAutomaton> in_both(const CharAutomaton& a, const CharAutomaton& b);
/// The texts that are not of `automaton`.
[[nodiscard]] CharAutomaton complement(const CharAutomaton& automaton);
/// Which states accept every text from there on.
[[nodiscard]] std::vector<bool> accepting_all(const CharAutomaton& automaton);
/// Removes the states from which no text can be accepted, and those that are never reached.
void trim(CharAutomaton& automaton);

[[nodiscard]] bool accepts(const CharAutomaton& automaton, std::u32string_view text);

/// `text` must be valid UTF-8.
[[nodiscard]] std::u32string to_characters(std::string_view text);

/// How the characters stand in the reply.
enum class Writing : std::uint8_t {
  kRaw,  ///< as they are
  /// A JSON string holds them, behind its opening quote: escaped as the canonical writer does, and only so;
  /// the closing quote comes with it.
  kJson,
  /// As kJson, and any character may be escaped in any way: only for automata whose every state leads to
  /// state 0 with characters that need no escape of their own.
  kJsonFreely
};

/// A text of the automaton, then `next`.
[[nodiscard]] NodeId write_text(GraphBuilder& builder, const CharAutomaton& automaton, Writing writing,
                                NodeId next);
/// The same of `least` to `most` characters (kUnbounded: any number), counted on the stack: a state is
/// entered only at counts from which a text of that length can still be finished. Nothing: those counts are
/// too many ranges, or would take too long to find (see kMaxCountRanges).
[[nodiscard]] std::optional<NodeId> write_text_counted(GraphBuilder& builder, const CharAutomaton& automaton,
                                                       Writing writing, std::uint64_t least,
                                                       std::uint64_t most, NodeId next);

/// Ranges of counts over all states of one automaton.
inline constexpr std::size_t kMaxCountRanges = 50'000;

}  // namespace baleen
