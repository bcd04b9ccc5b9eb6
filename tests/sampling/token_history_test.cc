#include "sampling/token_history.h"

#include <gtest/gtest.h>

#include <limits>

namespace baleen {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TokenHistory prompt_0_and_1_output_1_2_2() {
  TokenHistory history(5);
  history.observe_prompt(std::vector<TokenId>{0, 1, 0});
  for (const TokenId id : {1, 2, 2}) history.observe_output(id);
  return history;
}

std::vector<float> penalised(const SamplingParams& params, std::vector<float> logits) {
  prompt_0_and_1_output_1_2_2().penalise(params, logits);
  return logits;
}

TEST(TokenHistory, RepetitionCoversPromptAndOutputOnceEach) {
  EXPECT_EQ(penalised({.repetition_penalty = 2}, {4, -4, 1, 0, 3}), (std::vector<float>{2, -8, 0.5, 0, 3}));
}

TEST(TokenHistory, FrequencyCountsTheOutputOnly) {
  EXPECT_EQ(penalised({.frequency_penalty = 0.5}, {4, 4, 4, 4, 4}), (std::vector<float>{4, 3.5, 3, 4, 4}));
}

TEST(TokenHistory, PresenceAsksTheOutputOnly) {
  EXPECT_EQ(penalised({.presence_penalty = 1.5}, {4, 4, 4, 4, 4}), (std::vector<float>{4, 2.5, 2.5, 4, 4}));
}

TEST(TokenHistory, RepetitionComesBeforeTheOtherTwo) {
  const SamplingParams params{.repetition_penalty = 2, .frequency_penalty = 1, .presence_penalty = 0.25};
  EXPECT_EQ(penalised(params, {4, 4, 4, 4, -4}), (std::vector<float>{2, 0.75, -0.25, 4, -4}));
}

TEST(TokenHistory, NegativePenaltiesEncourage) {
  EXPECT_EQ(penalised({.frequency_penalty = -2}, {0, 0, 0, 0, 0}), (std::vector<float>{0, 2, 4, 0, 0}));
}

TEST(TokenHistory, StaysFiniteAndKeepsMinusInfinity) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_EQ(penalised({.repetition_penalty = 1e-9}, {kLargest, -1, -kInfinity, 0, 0})[0], kLargest);
  EXPECT_EQ(penalised({.repetition_penalty = 1e9}, {1, -kLargest, -kInfinity, 0, 0})[1], -kLargest);
  EXPECT_EQ(penalised({.repetition_penalty = 0.5, .frequency_penalty = -2}, {1, 1, -kInfinity, 0, 0})[2],
            -kInfinity);
}

}  // namespace
}  // namespace baleen
