// Budgets of thinking, loops and the DRY penalty, as every protocol asks for them and hears of them.

#include "request_cases.h"
#include "sample_reply.h"

namespace baleen {
namespace {

std::string base_of(const Protocol& protocol) {
  if (&protocol == &kCompletionsApi) return R"("prompt": "hi")";
  if (&protocol == &kResponsesApi) return R"("input": "hi")";
  return R"("max_tokens": 9, "messages": [{"role": "user", "content": "hi"}])";
}

ApiRequest with(const Protocol& protocol, const std::string& fields) {
  return accepted(protocol.parse, "{" + base_of(protocol) + ", " + fields + "}");
}

TEST(RequestedEnding, ABudgetHasManyNames) {
  const auto budget = [](const Protocol& protocol, const std::string& fields) {
    return with(protocol, fields).thinking_budget;
  };
  for (const Protocol* protocol : {&kChatCompletionsApi, &kResponsesApi, &kMessagesApi}) {
    for (const char* name :
         {"max_thinking_tokens", "thinking_budget", "thinking_token_budget", "thinking_budget_tokens"}) {
      const std::string field = "\"" + std::string(name) + "\": ";
      EXPECT_EQ(budget(*protocol, field + "70"), 70) << name;
      EXPECT_EQ(budget(*protocol, field + "0"), 0) << name;
      EXPECT_EQ(budget(*protocol, field + "-1"), -1) << name;
      expect_refusals(protocol->parse, base_of(*protocol),
                      {{field + "-2", name, "-1 to"}, {field + "1.5", name, "1.5"}});
    }
    EXPECT_EQ(budget(*protocol, R"("temperature": 1)"), std::nullopt);
    expect_refusals(
        protocol->parse, base_of(*protocol),
        {{R"("max_thinking_tokens": 5, "thinking_budget": 6)", "thinking_budget", "contradicts"}});
  }
  EXPECT_EQ(budget(kChatCompletionsApi, R"("reasoning": {"max_tokens": 2000})"), 2000);
  EXPECT_EQ(budget(kResponsesApi, R"("reasoning": {"max_tokens": 2000})"), 2000);
  const std::string enabled = R"("thinking": {"type": "enabled", "budget_tokens": 1024})";
  for (const Protocol* protocol : {&kChatCompletionsApi, &kMessagesApi}) {
    const ApiRequest request = with(*protocol, enabled);
    EXPECT_EQ(request.thinking_budget, 1024);
    EXPECT_EQ(request.thinking_mode, ThinkingMode::kThinking);
  }
  expect_refusals(kMessagesApi.parse, base_of(kMessagesApi),
                  {{enabled + R"(, "max_thinking_tokens": 9)", "max_thinking_tokens", "contradicts"}});
}

TEST(RequestedEnding, LoopsAreOffOrBoundedByTheRequest) {
  for (const Protocol* protocol : protocols()) {
    const auto asked = [&](const std::string& value) {
      return with(*protocol, "\"repetition_detection\": " + value).repetition;
    };
    EXPECT_EQ(with(*protocol, R"("temperature": 1)").repetition.on, std::nullopt);
    EXPECT_EQ(asked("false").on, false);
    EXPECT_EQ(asked("true").on, true);
    EXPECT_EQ(asked(R"({"max_pattern_size": 0})").on, false);
    const RequestedRepetition own = asked(R"({"min_tokens": 100, "max_pattern_size": 64, "min_count": 3})");
    EXPECT_EQ(own.on, true);
    EXPECT_EQ(own.min_tokens, 100);
    EXPECT_EQ(own.max_period, 64);
    EXPECT_EQ(own.min_count, 3);
    // As vLLM's clients send it: patterns of at least three tokens, four times.
    const RequestedRepetition other =
        asked(R"({"max_pattern_size": 20, "min_pattern_size": 3, "min_count": 4})");
    EXPECT_EQ(other.min_tokens, 9);
    EXPECT_EQ(other.max_period, 20);
    EXPECT_EQ(other.min_count, 4);
    expect_refusals(
        protocol->parse, base_of(*protocol),
        {{R"("repetition_detection": "on")", "repetition_detection", "true or false"},
         {R"("repetition_detection": {"min_count": 1})", "repetition_detection.min_count", "2 to"},
         {R"("repetition_detection": {"max_pattern_size": 513})", "repetition_detection.max_pattern_size",
          "512"},
         {R"("repetition_detection": {"window": 5})", "repetition_detection.window", "min_tokens"}});
  }
}

TEST(RequestedEnding, DryHasTheNamesOfLlamaCpp) {
  for (const Protocol* protocol : protocols()) {
    const ApiRequest request =
        with(*protocol, R"("dry_multiplier": 0.8, "dry_base": 2, "dry_allowed_length": 3,
        "dry_penalty_last_n": 1024, "dry_sequence_breakers": ["\n", "END"])");
    const DryParams& dry = request.sampling.dry;
    EXPECT_EQ(dry.multiplier, 0.8);
    EXPECT_EQ(dry.base, 2);
    EXPECT_EQ(dry.allowed_length, 3);
    EXPECT_EQ(dry.penalty_last_n, 1024);
    EXPECT_EQ(request.dry_sequence_breakers, (std::vector<std::string>{"\n", "END"}));
    const ApiRequest plain = with(*protocol, R"("temperature": 1)");
    EXPECT_FALSE(plain.sampling.dry.penalises());
    EXPECT_FALSE(plain.dry_sequence_breakers.has_value());
    expect_refusals(protocol->parse, base_of(*protocol),
                    {{R"("dry_multiplier": -1)", "dry_multiplier", "0 to"},
                     {R"("dry_base": 0.5)", "dry_base", "1 to"},
                     {R"("dry_sequence_breakers": "x")", "dry_sequence_breakers", "an array"},
                     {R"("dry_sequence_breakers": [""])", "dry_sequence_breakers[0]", "1 to 40"}});
  }
}

TEST(RequestedEnding, AReplyThatLoopedSaysSoInEveryProtocol) {
  for (const bool stream : {false, true}) {
    const auto text = [&](const Protocol& protocol) {
      ApiRequest request{.protocol = &protocol, .stream = stream};
      if (&protocol == &kCompletionsApi) request.prompts = {"p"};
      return encoded(request, {{{content("a a a a")}, {}}}, ReplyEnd::kRepetition);
    };
    EXPECT_NE(text(kChatCompletionsApi).find(R"("finish_reason":"repetition")"), std::string::npos);
    EXPECT_NE(text(kCompletionsApi).find(R"("finish_reason":"repetition")"), std::string::npos);
    EXPECT_NE(text(kMessagesApi).find(R"("stop_reason":"repetition")"), std::string::npos);
    const std::string response = text(kResponsesApi);
    EXPECT_NE(response.find(R"("incomplete_details":{"reason":"repetition"})"), std::string::npos)
        << response;
    EXPECT_NE(response.find(R"("status":"incomplete")"), std::string::npos);
    EXPECT_EQ(response.find("max_output_tokens\"}"), std::string::npos);
  }
}

}  // namespace
}  // namespace baleen
