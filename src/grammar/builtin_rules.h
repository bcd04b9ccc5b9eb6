/// The rules that every grammar has, at the same nodes: strings, numbers, any JSON, raw parameters. Masks for
/// them are shared by all grammars of a vocabulary.
#pragma once

#include <optional>
#include <string_view>

#include "chat/call_tags.h"
#include "grammar/char_automaton.h"
#include "grammar/graph.h"

namespace baleen {

/// Each may be called; each returns after its last byte.
struct BuiltinRules {
  NodeId string = kNoNode;             ///< any JSON string
  NodeId integer = kNoNode;            ///< at most kMaxWholeDigits digits
  NodeId number = kNoNode;             ///< a number with fraction and exponent, bounded in length
  NodeId value = kNoNode;              ///< any JSON
  NodeId object = kNoNode;             ///< any JSON object
  NodeId array = kNoNode;              ///< any JSON array
  NodeId raw_text = kNoNode;           ///< a raw parameter's text, its closing tag and newline
  std::string_view parameter_closing;  ///< that tag and its newline, of the grammar's spelling
  NodeId end = kNoNode;                ///< nodes from here on belong to one grammar
};

/// To be called first on a new builder. Strings and raw texts hold no `｜DSML｜`: a tool call could not be read
/// back. `tags`: how the grammar spells tool calls. Every grammar has the raw texts of all spellings, so that
/// the nodes are the same in all.
BuiltinRules add_builtin_rules(GraphBuilder& builder, const CallTags& tags = joined_call_tags());

/// The texts without `｜DSML｜`, for strings that have rules of their own. Nothing: too many states.
[[nodiscard]] std::optional<CharAutomaton> without_markup(const CharAutomaton& automaton);

}  // namespace baleen
