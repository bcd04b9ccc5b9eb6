#include "protocols/requested_thinking.h"

namespace baleen {

std::string read_effort(const RequestFields& fields, std::string_view name) {
  const std::string* effort = fields.text(name);
  if (effort == nullptr) return "";
  // Every profile has the same words.
  if (requested_effort(all_prompt_rules().front(), *effort) != nullptr) return *effort;
  fields.expected(name, "none, minimal, low, medium, high, xhigh, max or ultra");
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
      arguments->refuse(
          member.name,
          "the chat format has no such argument; it has thinking, enable_thinking, reasoning_effort");
    }
  }
}

void settle_thinking(const RequestFields& fields, std::string_view effort_field,
                     const RequestedThinking& thinking, const ApiContext& context, ApiRequest& request) {
  if (thinking.effort == "none" && thinking.on == true)
    fields.refuse(effort_field, "\"none\" contradicts the field that switches thinking on");
  const PromptRules& rules = prompt_rules(context.prompt_profile);
  const RequestedEffort* requested = requested_effort(rules, thinking.effort);
  const bool by_effort = requested == nullptr ? context.think_by_default : !requested->effort.empty();
  if (!thinking.on.value_or(by_effort)) {
    request.thinking_mode = ThinkingMode::kChat;
    return;
  }
  request.thinking_mode = ThinkingMode::kThinking;
  if (requested == nullptr) {
    request.effort = rules.api_default;
  } else {
    request.effort = requested->effort.empty() ? rules.efforts.front().name : requested->effort;
  }
}

}  // namespace baleen
