#include "trainer/post/reward.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "chat/dsml.h"

namespace baleen {
namespace {

constexpr RewardConfig kWeights{.answer = 1, .pattern = 2, .call_parses = 0.25, .call_matches = 4};

double rewarded(const RewardRule& rule, const std::string& reply, bool ended = true) {
  return reward(kWeights, rule, reply, ThinkingMode::kChat, ended);
}

TEST(Reward, AnExactAnswer) {
  const RewardRule rule{.answer = "42", .pattern = {}, .call = {}};
  EXPECT_EQ(rewarded(rule, " 42\n"), 1);
  EXPECT_EQ(rewarded(rule, "It is 42"), 0);
  EXPECT_EQ(rewarded(rule, "42", false), 0);  // cut by the limit: more would have come
}

TEST(Reward, TheAnswerBehindItsReasoning) {
  const RewardRule rule{.answer = "42", .pattern = {}, .call = {}};
  EXPECT_EQ(reward(kWeights, rule, "six times seven</think>42", ThinkingMode::kThinking, true), 1);
}

TEST(Reward, APatternAnywhere) {
  RewardRule rule;
  rule.pattern.emplace("fox(es)?\\b");
  EXPECT_EQ(rewarded(rule, "Two foxes ran."), 2);
  EXPECT_EQ(rewarded(rule, "Two foxglove plants."), 0);
  EXPECT_THROW(RewardPattern("(unclosed"), Error);
  rule.pattern.emplace("^(a+)+$");  // gives up in the place of backtracking without end
  EXPECT_EQ(rewarded(rule, std::string(4000, 'a') + "b"), 0);
}

TEST(Reward, AToolCallThatParsesAndOneThatMatches) {
  const ToolCall expected{.id = {}, .name = "weather", .arguments = R"({"city": "Oslo", "days": 2})"};
  const RewardRule rule{.answer = {}, .pattern = {}, .call = expected};
  const auto reply = [](const std::string& name, const std::string& arguments) {
    const ToolCall call{.id = {}, .name = name, .arguments = arguments};
    return "\n\n" + render_tool_calls({&call, 1}).value().text;
  };
  EXPECT_EQ(rewarded(rule, reply("weather", R"({"days": 2, "city": "Oslo"})")), 4.25);
  EXPECT_EQ(rewarded(rule, reply("weather", R"({"city": "Bergen", "days": 2})")), 0.25);
  EXPECT_EQ(rewarded(rule, reply("order", R"({"city": "Oslo", "days": 2})")), 0.25);
  EXPECT_EQ(rewarded(rule, "Oslo is sunny."), 0);
}

}  // namespace
}  // namespace baleen
