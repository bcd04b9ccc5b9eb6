/// From messages to turns: what the official encoder does to a conversation before it renders a single byte.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "chat/message.h"
#include "chat/prompt_profile.h"

namespace baleen {

/// A part of a user turn: text of a user message, or the result of a tool.
struct TurnBlock {
  std::string_view text;
  std::string_view tool_call_id;
  bool is_tool_result = false;
};

/// One rendered unit: a message of any role but tool, or several user and tool messages merged into one user
/// turn. Points into the messages it was made of.
struct Turn {
  Role role;               ///< never kTool
  const Message* message;  ///< the (first) message; of a user turn only `blocks` and `task` count
  std::size_t index;       ///< where that message stands in its list, for error sentences
  std::optional<Task> task;
  std::vector<TurnBlock> blocks;  ///< user turns: never empty
};

/// Merges tool messages and consecutive user messages into user turns. A user message with a task ends its
/// turn for later user messages, not for tool messages; the turn keeps the task of the user message that
/// opened it. Where instructions have a token, a developer's turn is the system's.
std::vector<Turn> merge_messages(std::span<const Message> messages, const PromptRules& rules);

/// Puts the tool results of every user turn into the order of the calls of the latest assistant message with
/// calls. Text blocks keep their places; results of unknown calls count as answers to the first.
void order_tool_results(std::span<Turn> turns);

/// Whether the model replies to the turn at `index`: a user's or a developer's; where instructions have a
/// token, also the system's after the first turn.
bool asks_for_reply(std::span<const Turn> turns, std::size_t index, const PromptRules& rules);

/// Index of the last turn that asks for a reply; -1 when there is none.
std::ptrdiff_t last_user_turn(std::span<const Turn> turns, const PromptRules& rules);

/// In thinking mode without tools, turns of the developer and of unknown roles vanish before the last user
/// turn.
void drop_old_turns(std::vector<Turn>& turns, const PromptRules& rules);

/// Whether any turn declares tools: then nothing is dropped and earlier reasoning stays.
bool any_tools(std::span<const Turn> turns);

}  // namespace baleen
