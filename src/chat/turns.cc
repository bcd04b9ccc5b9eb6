#include "chat/turns.h"

#include <algorithm>
#include <unordered_map>

namespace baleen {
namespace {

using CallPositions = std::unordered_map<std::string_view, std::size_t>;

CallPositions call_positions(const std::vector<ToolCall>& calls) {
  CallPositions positions;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].id.empty()) positions[calls[i].id] = i;
  }
  return positions;
}

void order_blocks(std::vector<TurnBlock>& blocks, const CallPositions& positions) {
  std::vector<TurnBlock> results;
  for (const TurnBlock& block : blocks) {
    if (block.is_tool_result) results.push_back(block);
  }
  const auto position = [&positions](const TurnBlock& block) {
    const auto known = positions.find(block.tool_call_id);
    return known == positions.end() ? 0 : known->second;
  };
  std::ranges::stable_sort(results, {}, position);
  auto next = results.begin();
  for (TurnBlock& block : blocks) {
    if (block.is_tool_result) block = *next++;
  }
}

bool vanishes(Role role) { return role == Role::kDeveloper || role == Role::kUnknown; }

}  // namespace

std::vector<Turn> merge_messages(std::span<const Message> messages, const PromptRules& rules) {
  const Role of_developer = rules.system_token.empty() ? Role::kDeveloper : Role::kSystem;
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const bool is_tool = message.role == Role::kTool;
    if (!is_tool && message.role != Role::kUser) {
      const Role role = message.role == Role::kDeveloper ? of_developer : message.role;
      turns.push_back({role, &message, i, message.task, {}});
      continue;
    }
    const bool joins = !turns.empty() && turns.back().role == Role::kUser && (is_tool || !turns.back().task);
    if (!joins) turns.push_back({Role::kUser, &message, i, is_tool ? std::nullopt : message.task, {}});
    turns.back().blocks.push_back(
        {message.content, is_tool ? message.tool_call_id : std::string_view(), is_tool});
  }
  return turns;
}

void order_tool_results(std::span<Turn> turns) {
  CallPositions positions;
  for (Turn& turn : turns) {
    if (turn.role == Role::kAssistant && !turn.message->tool_calls.empty()) {
      positions = call_positions(turn.message->tool_calls);
    } else if (!positions.empty()) {
      order_blocks(turn.blocks, positions);
    }
  }
}

bool asks_for_reply(std::span<const Turn> turns, std::size_t index, const PromptRules& rules) {
  const Role role = turns[index].role;
  if (role == Role::kSystem) return index > 0 && !rules.system_token.empty();
  return role == Role::kUser || role == Role::kDeveloper;
}

std::ptrdiff_t last_user_turn(std::span<const Turn> turns, const PromptRules& rules) {
  auto index = static_cast<std::ptrdiff_t>(turns.size()) - 1;
  while (index >= 0 && !asks_for_reply(turns, static_cast<std::size_t>(index), rules)) --index;
  return index;
}

void drop_old_turns(std::vector<Turn>& turns, const PromptRules& rules) {
  const auto last_user = turns.begin() + std::max<std::ptrdiff_t>(last_user_turn(turns, rules), 0);
  turns.erase(std::remove_if(turns.begin(), last_user, [](const Turn& turn) { return vanishes(turn.role); }),
              last_user);
}

bool any_tools(std::span<const Turn> turns) {
  return std::ranges::any_of(
      turns, [](const Turn& turn) { return turn.role != Role::kUser && !turn.message->tools.empty(); });
}

}  // namespace baleen
