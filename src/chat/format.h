/// The fixed strings of the DeepSeek-V4 chat formats. Every byte counts: the special strings are single
/// tokens of the vocabulary (the bars are U+FF5C, the low blocks U+2581), the English texts are what the
/// model was trained on.
#pragma once

#include <array>
#include <string_view>

#include "chat/message.h"

namespace baleen::chat_format {

inline constexpr std::string_view kBos = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEos = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kUser = "<｜User｜>";
inline constexpr std::string_view kAssistant = "<｜Assistant｜>";
inline constexpr std::string_view kReminder = "<｜latest_reminder｜>";
inline constexpr std::string_view kSystem = "<｜System｜>";  ///< V4.1
inline constexpr std::string_view kThink = "<think>";
inline constexpr std::string_view kEndThink = "</think>";
inline constexpr std::string_view kDsml = "｜DSML｜";

/// How every tool-call block begins; the names of its tags differ between releases (call_tags.h).
inline constexpr std::string_view kBlockStart = "\n\n<｜DSML｜";

struct RoleName {
  Role role;
  std::string_view name;
};

inline constexpr std::array<RoleName, 7> kRoles = {{
    {Role::kSystem, "system"},
    {Role::kUser, "user"},
    {Role::kDeveloper, "developer"},
    {Role::kAssistant, "assistant"},
    {Role::kTool, "tool"},
    {Role::kLatestReminder, "latest_reminder"},
    {Role::kDirectSearchResults, "direct_search_results"},
}};

struct TaskName {
  Task task;
  std::string_view name;
  std::string_view token;
};

inline constexpr std::array<TaskName, 6> kTasks = {{
    {Task::kAction, "action", "<｜action｜>"},
    {Task::kQuery, "query", "<｜query｜>"},
    {Task::kAuthority, "authority", "<｜authority｜>"},
    {Task::kDomain, "domain", "<｜domain｜>"},
    {Task::kTitle, "title", "<｜title｜>"},
    {Task::kReadUrl, "read_url", "<｜read_url｜>"},
}};

/// Directly after BOS at efforts that say so (prompt_profile.h).
inline constexpr std::string_view kEffortMax =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the "
    "root cause, "
    "rigorously stress-testing your logic against all potential paths, edge cases, and adversarial "
    "scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered "
    "alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n";

/// The strongest effort of the releases since V4-Flash-0731.
inline constexpr std::string_view kEffortBeyond =
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively "
    "decompose the problem into its most fundamental components, trace every causal chain to its root, and "
    "resolve the underlying cause rather than any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple angles and are "
    "certain that no assumption remains unchecked and no error remains undiscovered.\n\n";

/// V4.1's, at every effort: its number stands for {}.
inline constexpr std::string_view kEffortNumber =
    "Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n";

/// Before the tool schemas, one line each; in V4's tags.
inline constexpr std::string_view kToolsHead = R"(## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<｜DSML｜tool_calls>" block like the following:

<｜DSML｜tool_calls>
<｜DSML｜invoke name="$TOOL_NAME">
<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>
...
</｜DSML｜invoke>
<｜DSML｜invoke name="$TOOL_NAME2">
...
</｜DSML｜invoke>
</｜DSML｜tool_calls>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

)";

/// After the tool schemas.
inline constexpr std::string_view kToolsTail =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";

/// Before the response schema.
inline constexpr std::string_view kFormatHead =
    "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

}  // namespace baleen::chat_format
