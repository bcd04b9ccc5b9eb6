#define PCRE2_CODE_UNIT_WIDTH 8
#include "trainer/post/reward.h"

#include <pcre2.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "chat/format.h"
#include "chat/parse.h"

namespace baleen {
namespace {

constexpr std::uint32_t kMaxMatchSteps = 1'000'000;

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool same_arguments(const std::string& found, const std::string& expected) {
  const Result<nlohmann::json> a = parse_json(found), b = parse_json(expected);
  return a.ok() && b.ok() && a.value() == b.value();
}

}  // namespace

RewardPattern::RewardPattern(const std::string& expression) {
  int code = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                       PCRE2_UTF | PCRE2_UCP, &code, &place, nullptr);
  if (compiled == nullptr) {
    char text[256] = {};
    pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
    fail("regular expression \"{}\", byte {}: {}", expression, place, text);
  }
  code_ = std::shared_ptr<void>(compiled, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
}

bool RewardPattern::found_in(std::string_view text) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> limits(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(code, nullptr), pcre2_match_data_free);
  pcre2_set_match_limit(limits.get(), kMaxMatchSteps);
  return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, match.get(),
                     limits.get()) >= 0;
}

double reward(const RewardConfig& weights, const RewardRule& rule, std::string_view reply, ThinkingMode mode,
              bool ended, const CallTags& tags) {
  const Result<Message> parsed =
      parse_completion(std::string(reply) + std::string(chat_format::kEos), mode, tags);
  const bool readable = ended && parsed.ok();
  const std::string_view content = stripped(readable ? std::string_view(parsed.value().content) : reply);
  double sum = 0;
  if (rule.answer && ended && content == stripped(*rule.answer)) sum += weights.answer;
  if (rule.pattern && rule.pattern->found_in(content)) sum += weights.pattern;
  if (rule.call && readable && !parsed.value().tool_calls.empty()) {
    sum += weights.call_parses;
    const ToolCall& call = parsed.value().tool_calls.front();
    if (parsed.value().tool_calls.size() == 1 && call.name == rule.call->name &&
        same_arguments(call.arguments, rule.call->arguments)) {
      sum += weights.call_matches;
    }
  }
  return sum;
}

}  // namespace baleen
