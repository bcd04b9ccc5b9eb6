/// A conversation as plain data: what a client sends, what the model's completion parses to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/python_json.h"

namespace baleen {

/// kChat: the model answers at once. kThinking: it reasons first, between `<think>` and `</think>`.
enum class ThinkingMode { kChat, kThinking };

enum class Role {
  kSystem,
  kUser,
  kDeveloper,  ///< an internal search pipeline speaks; a public API does not take it
  kAssistant,
  kTool,
  kLatestReminder,
  kDirectSearchResults,  ///< known to the rules of dropping, cannot be rendered
  kUnknown,              ///< dropped where the rules drop it, cannot be rendered
};

/// Quick-instruction tasks: short side questions to the model, each with a token of its own.
enum class Task { kAction, kQuery, kAuthority, kDomain, kTitle, kReadUrl };

struct ToolCall {
  std::string id;         ///< may be empty; pairs the call with the tool message that answers it
  std::string name;       ///< what the function is called
  std::string arguments;  ///< JSON text of an object; text that is no JSON is rendered as one raw parameter
};

struct Message {
  Role role = Role::kUser;
  std::string unknown_role;          ///< the name as given, for kUnknown
  std::string content;               ///< UTF-8; of a tool: its result
  std::string reasoning_content;     ///< assistant
  std::vector<ToolCall> tool_calls;  ///< assistant
  /// Assistant: the bytes in which the model wrote `tool_calls`, from the blank line before the block to its
  /// end; if not empty they are rendered instead. Never on the wire.
  std::string raw_tool_calls;
  std::string tool_call_id;  ///< tool: the call it answers
  std::vector<PythonJson>
      tools;                   ///< system, developer: the `function` objects, without their OpenAI wrapping
  PythonJson response_format;  ///< system, developer: a JSON schema; null or {} for none
  std::optional<Task> task;    ///< user, assistant
  bool wo_eos = false;         ///< assistant: leave out the end token, so that the model continues the text
};

/// The name on the wire; `unknown_role` for kUnknown.
[[nodiscard]] std::string_view role_name(const Message& message);

}  // namespace baleen
