#include "protocols/requested_thinking.h"

#include <fmt/format.h>

namespace baleen {

std::string read_effort(const RequestFields& fields, std::string_view name, const PromptProfile& profile) {
  const bool has_numbers = prompt_rules(profile).has_numbers();
  const PythonJson* value = fields.find(name);
  if (has_numbers && value != nullptr && value->as_number() != nullptr) {
    const auto number = fields.integer(name, kMinEffort, kMaxEffort);
    return number ? std::to_string(*number) : "";
  }
  const std::string* effort = fields.text(name);
  if (effort == nullptr) return "";
  if (requested_effort(profile, *effort)) return *effort;
  constexpr const char* kWords = "none, minimal, low, medium, high, xhigh, max or ultra";
  fields.expected(name, has_numbers
                            ? fmt::format("{}, or a number from {} to {}", kWords, kMinEffort, kMaxEffort)
                            : std::string(kWords));
  return "";
}

void set_switch(const RequestFields& fields, std::string_view name, bool on, RequestedThinking& thinking) {
  if (thinking.on.value_or(on) != on) fields.refuse(name, "contradicts another field that switches thinking");
  thinking.on = on;
}

void set_effort(const RequestFields& fields, std::string_view name, RequestedThinking& thinking) {
  const std::string effort = read_effort(fields, name, thinking.profile);
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
  const PromptProfile& profile = thinking.profile;
  const std::optional<RequestedEffort> requested = requested_effort(profile, thinking.effort);
  const bool by_effort = requested ? !requested->effort.empty() : context.think_by_default;
  if (!thinking.on.value_or(by_effort)) {
    request.thinking_mode = ThinkingMode::kChat;
    return;
  }
  request.thinking_mode = ThinkingMode::kThinking;
  if (!requested) {
    request.effort = api_default(profile);
  } else {
    request.effort = requested->effort.empty() ? effort_names(profile).front() : requested->effort;
  }
}

}  // namespace baleen
