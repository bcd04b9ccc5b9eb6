#include "protocols/requested_thinking.h"

#include <algorithm>
#include <array>

namespace baleen {

std::string read_effort(const RequestFields& fields, std::string_view name) {
  static constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                               "high", "xhigh",   "max"};
  const std::string* effort = fields.text(name);
  if (effort == nullptr) return "";
  if (std::ranges::find(kEfforts, *effort) != kEfforts.end()) return *effort;
  fields.expected(name, "none, minimal, low, medium, high, xhigh or max");
  return "";
}

void set_switch(const RequestFields& fields, std::string_view name, bool on, RequestedThinking& thinking) {
  if (thinking.on.value_or(on) != on) fields.refuse(name, "contradicts another field that switches thinking");
  thinking.on = on;
}

void set_effort(const RequestFields& fields, std::string_view name, RequestedThinking& thinking) {
  const std::string effort = read_effort(fields, name);
  if (effort.empty()) return;
  if (!thinking.effort.empty() && thinking.effort != effort) {
    fields.refuse(name, "contradicts another field that says how hard to think");
  }
  thinking.effort = effort;
}

void read_template_switches(const RequestFields& fields, RequestedThinking& thinking) {
  if (const auto on = fields.flag("enable_thinking")) set_switch(fields, "enable_thinking", *on, thinking);
  const auto arguments = fields.fields("chat_template_kwargs");
  if (!arguments) return;
  for (const PythonJson::Member& member : arguments->members()) {
    if (member.name == "thinking" || member.name == "enable_thinking") {
      if (const auto on = arguments->flag(member.name)) set_switch(*arguments, member.name, *on, thinking);
    } else if (member.name == "reasoning_effort") {
      set_effort(*arguments, member.name, thinking);
    } else {
      arguments->refuse(member.name,
                        "the chat format has no such argument; it has thinking, enable_thinking, reasoning_effort");
    }
  }
}

void settle_thinking(const RequestFields& fields, std::string_view effort_field,
                     const RequestedThinking& thinking, bool by_default, ApiRequest& request) {
  const std::string& effort = thinking.effort;
  if (effort == "none" && thinking.on == true) {
    fields.refuse(effort_field, "\"none\" contradicts the field that switches thinking on");
  }
  const bool by_effort = effort.empty() ? by_default : effort != "none" && effort != "minimal";
  request.thinking_mode = thinking.on.value_or(by_effort) ? ThinkingMode::kThinking : ThinkingMode::kChat;
  if (effort == "high") request.effort = ReasoningEffort::kHigh;
  if (effort == "xhigh" || effort == "max") request.effort = ReasoningEffort::kMax;
}

}  // namespace baleen
