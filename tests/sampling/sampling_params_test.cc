#include "sampling/sampling_params.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace baleen {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::string> sentences_after(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params;
  change(params);
  return params.validate(100);
}

TEST(SamplingParams, DefaultsAndEdgesAreGood) {
  EXPECT_TRUE(SamplingParams{}.validate(1).empty());
  const SamplingParams edges{.temperature = 0,
                             .top_p = 1e-9,
                             .min_p = 1,
                             .repetition_penalty = 1e-3,
                             .frequency_penalty = -2,
                             .presence_penalty = 2,
                             .num_logprobs = 20,
                             .logit_bias = {{0, -100}, {99, 100}}};
  EXPECT_TRUE(edges.validate(100).empty());
}

TEST(SamplingParams, EachBadValueGetsOneSentenceThatNamesIt) {
  const struct {
    std::string name;
    std::function<void(SamplingParams&)> change;
  } cases[] = {
      {"temperature", [](auto& p) { p.temperature = -0.5; }},
      {"temperature", [](auto& p) { p.temperature = kNan; }},
      {"temperature", [](auto& p) { p.temperature = kInfinity; }},
      {"top_k", [](auto& p) { p.top_k = -1; }},
      {"top_p", [](auto& p) { p.top_p = 0; }},
      {"top_p", [](auto& p) { p.top_p = 1.01; }},
      {"top_p", [](auto& p) { p.top_p = kNan; }},
      {"min_p", [](auto& p) { p.min_p = -0.1; }},
      {"min_p", [](auto& p) { p.min_p = kNan; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = 0; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = kNan; }},
      {"frequency_penalty", [](auto& p) { p.frequency_penalty = 2.1; }},
      {"frequency_penalty", [](auto& p) { p.frequency_penalty = kNan; }},
      {"presence_penalty", [](auto& p) { p.presence_penalty = -kInfinity; }},
      {"num_logprobs", [](auto& p) { p.num_logprobs = 21; }},
      {"num_logprobs", [](auto& p) { p.num_logprobs = -2; }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{100, 1.0}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{-1, 1.0}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{5, 101}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{5, kNan}};
       }},
  };
  for (const auto& c : cases) {
    const auto sentences = sentences_after(c.change);
    ASSERT_EQ(sentences.size(), 1u) << c.name;
    EXPECT_TRUE(sentences[0].starts_with(c.name)) << sentences[0];
  }
  EXPECT_EQ(sentences_after([](auto& p) { p.temperature = -0.5; })[0],
            "temperature is -0.5; it must be 0 (always the likeliest token) or a positive number");
  EXPECT_EQ(sentences_after([](auto& p) {
              p.logit_bias = {{100, 1.0}};
            })[0],
            "logit_bias names token 100; ids of this vocabulary run from 0 to 99");
}

TEST(SamplingParams, SeveralBadValuesGetSeveralSentences) {
  EXPECT_EQ(sentences_after([](auto& p) {
              p.top_k = -3, p.top_p = 7, p.logit_bias = {{200, kNan}};
            }).size(),
            4u);
}

}  // namespace
}  // namespace baleen
