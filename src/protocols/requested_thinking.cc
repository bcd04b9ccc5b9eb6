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
