#include "protocols/requested_ending.h"

#include <algorithm>

#include "base/repetition_limits.h"
#include "protocols/requested_sampling.h"

namespace baleen {

void set_thinking_budget(const RequestFields& fields, std::string_view name, ApiRequest& request) {
  const auto budget = fields.integer(name, -1, kMaxTokensLimit);
  if (!budget) return;
  if (request.thinking_budget.value_or(*budget) != *budget) {
    return fields.refuse(name, "contradicts another field that says how long to think");
  }
  request.thinking_budget = budget;
}

void read_thinking_budget(const RequestFields& fields, ApiRequest& request) {
  for (const char* name :
       {"max_thinking_tokens", "thinking_budget", "thinking_token_budget", "thinking_budget_tokens"})
    set_thinking_budget(fields, name, request);
}

void read_repetition_detection(const RequestFields& fields, ApiRequest& request) {
  using Limits = RepetitionLimits;
  constexpr const char* kName = "repetition_detection";
  RequestedRepetition& repetition = request.repetition;
  const PythonJson* value = fields.find(kName);
  if (value == nullptr) return;
  if (value->as_object() == nullptr) {
    repetition.on = fields.flag(kName);
    return;
  }
  const auto object = fields.fields(kName);
  for (const PythonJson::Member& member : object->members()) {
    static constexpr std::string_view kNames[] = {"max_pattern_size", "min_pattern_size", "min_count",
                                                  "min_tokens"};
    if (std::ranges::find(kNames, std::string_view(member.name)) == std::end(kNames)) {
      return object->refuse(member.name,
                            "it has max_pattern_size, min_pattern_size, min_count and min_tokens");
    }
  }
  repetition.max_period = object->integer("max_pattern_size", 0, Limits::kMaxPeriod);
  repetition.min_count = object->integer("min_count", 2, Limits::kMaxCount);
  repetition.min_tokens = object->integer("min_tokens", 1, Limits::kMaxTokens);
  const std::int64_t shortest = object->integer("min_pattern_size", 0, Limits::kMaxPeriod).value_or(1);
  repetition.on = repetition.max_period != 0;
  if (repetition.min_count && !repetition.min_tokens) {
    repetition.min_tokens = (*repetition.min_count - 1) * std::max<std::int64_t>(shortest, 1);
  }
}

}  // namespace baleen
