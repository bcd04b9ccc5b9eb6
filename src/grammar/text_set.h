/// Sets of texts with bounds on their length: what the rules of one string come to. Lengths stand beside
/// the automata and are counted on the stack of the grammar, so that they multiply no states.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "grammar/char_automaton.h"

namespace baleen {

/// The texts of `automaton` of `least` to `most` characters.
struct SizedTexts {
  CharAutomaton automaton;
  std::uint64_t least = 0;
  std::uint64_t most = kUnbounded;
};

/// The texts that are in one of these; none: no text. They may overlap.
using TextSet = std::vector<SizedTexts>;

/// More parts than that make no set here.
inline constexpr std::size_t kMaxTextParts = 16;

/// All texts of `least` to `most` characters.
[[nodiscard]] TextSet texts_of_length(std::uint64_t least, std::uint64_t most);
/// The texts of both. Nothing: too many states or parts.
[[nodiscard]] std::optional<TextSet> in_both(const TextSet& a, const TextSet& b);
/// The texts that are not in `set`. Nothing: it has bounds of length, or too many parts or states.
[[nodiscard]] std::optional<TextSet> all_but(const TextSet& set);
/// The same texts without `｜DSML｜`. Nothing: too many states.
[[nodiscard]] std::optional<TextSet> without_markup(const TextSet& set);
[[nodiscard]] bool accepts(const TextSet& set, std::u32string_view text);

/// A text of the set, then `next`; kJsonFreely asks of the automata what write_text does. Nothing: the
/// lengths that can still be reached differ too much from state to state.
[[nodiscard]] std::optional<NodeId> write_texts(GraphBuilder& builder, const TextSet& set, Writing writing,
                                                NodeId next);

}  // namespace baleen
