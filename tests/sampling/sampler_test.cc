#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace baleen {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TokenId choose(const SamplingParams& params, const std::vector<float>& logits) {
  Sampler sampler(params, static_cast<std::int32_t>(logits.size()));
  const auto token = sampler.sample(logits);
  EXPECT_TRUE(token.ok());
  return token.ok() ? token.value().id : -1;
}

std::vector<int> counts_of(Sampler& sampler, const std::vector<float>& logits, int num_draws) {
  std::vector<int> counts(logits.size());
  for (int i = 0; i < num_draws; ++i) ++counts[static_cast<std::size_t>(sampler.sample(logits).value().id)];
  return counts;
}

double chi_square(const std::vector<int>& counts, const std::vector<double>& probabilities, int num_draws) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * num_draws;
    if (expected > 0) sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> probabilities;
  double total = 0;
  for (const float logit : logits) total += std::exp(logit / temperature);
  for (const float logit : logits) probabilities.push_back(std::exp(logit / temperature) / total);
  return probabilities;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdAmongEquals) {
  EXPECT_EQ(choose({.temperature = 0}, {1, 3, 2}), 1);
  EXPECT_EQ(choose({.temperature = 0}, {1, 3, 3, 3}), 1);
  EXPECT_EQ(choose({.temperature = 0}, {-kInfinity, -5, -kInfinity}), 1);
  EXPECT_EQ(choose({.temperature = 0}, {-0.0f, 0.0f}), 0);
  EXPECT_EQ(choose({.temperature = 0}, std::vector<float>(1000, 7.0f)), 0);
}

TEST(Sampler, FiltersThatLeaveOneTokenAreGreedy) {
  std::mt19937 random(5);
  std::vector<float> logits(3000);
  for (float& logit : logits) logit = static_cast<float>(random() % 100) / 10;
  const TokenId want = choose({.temperature = 0}, logits);
  EXPECT_EQ(choose({.top_k = 1, .seed = 1}, logits), want);
  EXPECT_EQ(choose({.top_p = 1e-9, .seed = 1}, logits), want);
  logits[static_cast<std::size_t>(want)] += 1.0f;
  EXPECT_EQ(choose({.min_p = 1, .seed = 1}, logits), want);
  EXPECT_EQ(choose({.temperature = 1e-4, .seed = 1}, logits), want);
}

TEST(Sampler, VocabularyOfOne) {
  Sampler sampler({.top_k = 5, .top_p = 0.5, .min_p = 0.5, .num_logprobs = 3}, 1);
  const auto token = sampler.sample(std::vector<float>{-4.0f}).value();
  EXPECT_EQ(token.id, 0);
  EXPECT_EQ(token.logprob, 0.0);
  ASSERT_EQ(token.top_logprobs.size(), 1u);
  EXPECT_EQ(token.top_logprobs[0], (TokenLogprob{0, 0.0}));
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  constexpr int kNumDraws = 200000;
  const std::vector<float> logits{0.0f, 1.0f, -1.0f, 2.0f, 0.5f, -kInfinity, 1.5f, -3.0f};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    Sampler sampler({.temperature = temperature, .seed = 42}, 8);
    const auto counts = counts_of(sampler, logits, kNumDraws);
    EXPECT_EQ(counts[5], 0);
    // 6 degrees of freedom: chance alone exceeds 40 once in two million.
    EXPECT_LT(chi_square(counts, softmax(logits, temperature), kNumDraws), 40) << temperature;
  }
}

TEST(Sampler, DrawsOverManyChunksFollowTheSoftmax) {
  constexpr int kNumDraws = 200000, kGroup = 100;
  std::vector<float> logits(2000);
  std::mt19937 random(3);
  for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 400;
  const auto probabilities = softmax(logits, 1.0);
  Sampler sampler({.seed = 11}, 2000);
  const auto counts = counts_of(sampler, logits, kNumDraws);
  std::vector<int> group_counts(logits.size() / kGroup);
  std::vector<double> group_probabilities(group_counts.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    group_counts[i / kGroup] += counts[i];
    group_probabilities[i / kGroup] += probabilities[i];
  }
  // 19 degrees of freedom: chance alone exceeds 65 once in two million.
  EXPECT_LT(chi_square(group_counts, group_probabilities, kNumDraws), 65);
}

TEST(Sampler, FiltersKeepTheProportionsOfWhatTheyLeave) {
  constexpr int kNumDraws = 100000;
  const std::vector<float> logits{std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};
  const std::vector<double> first_two{0, 4.0 / 7, 0, 3.0 / 7};
  const SamplingParams filters[] = {
      {.top_k = 2, .seed = 9}, {.top_p = 0.65, .seed = 9}, {.min_p = 0.6, .seed = 9}};
  for (const auto& params : filters) {
    Sampler sampler(params, 4);
    const auto counts = counts_of(sampler, logits, kNumDraws);
    EXPECT_EQ(counts[0] + counts[2], 0);
    EXPECT_LT(chi_square(counts, first_two, kNumDraws), 26);  // 1 degree of freedom: once in three million
  }
}

TEST(Sampler, TopPSeesTheDistributionAfterTemperature) {
  // At temperature 1 the first token holds 0.88; at 10 it holds 0.55, so 0.6 needs both.
  const std::vector<float> logits{2.0f, 0.0f};
  Sampler cold({.temperature = 1, .top_p = 0.6, .seed = 2}, 2),
      hot({.temperature = 10, .top_p = 0.6, .seed = 2}, 2);
  EXPECT_EQ(counts_of(cold, logits, 1000)[1], 0);
  EXPECT_GT(counts_of(hot, logits, 1000)[1], 300);
}

TEST(Sampler, SeedRepeatsTheTextAndSeedsDiffer) {
  const std::vector<float> logits(5000, 0.0f);
  const auto text = [&](std::optional<std::uint64_t> seed) {
    Sampler sampler({.seed = seed}, 5000);
    std::vector<TokenId> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(sampler.sample(logits).value().id);
    return ids;
  };
  EXPECT_EQ(text(123), text(123));
  EXPECT_NE(text(123), text(124));
  EXPECT_NE(text(std::nullopt), text(std::nullopt));
  Sampler unseeded({}, 5000);
  const TokenId first = unseeded.sample(logits).value().id;
  EXPECT_EQ(choose({.seed = unseeded.seed()}, logits), first);
}

TEST(Sampler, LogprobsAreThoseOfTheModelBeforeEveryAdjustment) {
  const std::vector<float> logits{std::log(0.5f), std::log(0.125f), std::log(0.25f), std::log(0.125f),
                                  -kInfinity};
  Sampler sampler({.temperature = 0,
                   .top_k = 1,
                   .repetition_penalty = 3,
                   .num_logprobs = 5,
                   .logit_bias = {{0, -100.0}, {3, 50.0}}},
                  5);
  const auto token = sampler.sample(logits).value();
  EXPECT_EQ(token.id, 3);
  EXPECT_NEAR(token.logprob.value(), std::log(0.125), 1e-6);
  std::vector<TokenId> ids;
  for (const TokenLogprob& top : token.top_logprobs) {
    ids.push_back(top.id);
    EXPECT_NEAR(top.logprob, double{logits[static_cast<std::size_t>(top.id)]}, 1e-6);
  }
  EXPECT_EQ(ids, (std::vector<TokenId>{0, 2, 1, 3}));  // the impossible token is left out
}

TEST(Sampler, TopLogprobsAreTheHeadOfASort) {
  std::mt19937 random(8);
  std::vector<float> logits(4000);
  for (float& logit : logits) logit = static_cast<float>(random() % 300) / 20;
  std::vector<TokenId> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  for (const int count : {0, 1, 7, 20}) {
    Sampler sampler({.seed = 1, .num_logprobs = count}, 4000);
    const auto token = sampler.sample(logits).value();
    EXPECT_TRUE(token.logprob.has_value());
    ASSERT_EQ(token.top_logprobs.size(), static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < token.top_logprobs.size(); ++i) EXPECT_EQ(token.top_logprobs[i].id, order[i]);
  }
  Sampler silent({.seed = 1}, 4000);
  EXPECT_FALSE(silent.sample(logits).value().logprob.has_value());
}

TEST(Sampler, PenaltiesSteerThroughPromptAndOutput) {
  const std::vector<float> logits{5.0f, 4.5f, 4.4f};
  Sampler repetition({.temperature = 0, .repetition_penalty = 1.2}, 3);
  repetition.observe_prompt(std::vector<TokenId>{0});
  EXPECT_EQ(repetition.sample(logits).value().id, 1);  // 5 / 1.2 = 4.17
  EXPECT_EQ(repetition.sample(logits).value().id, 2);  // 4.5 / 1.2 = 3.75
  EXPECT_EQ(repetition.sample(logits).value().id, 0);  // 4.4 / 1.2 = 3.67

  Sampler frequency({.temperature = 0, .frequency_penalty = 0.4}, 3);
  frequency.observe_prompt(std::vector<TokenId>{0, 0, 0, 0});
  std::vector<TokenId> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(frequency.sample(logits).value().id);
  EXPECT_EQ(ids,
            (std::vector<TokenId>{0, 0, 1, 2, 0}));  // 5, 4.6, then 4.2 4.5 4.4, 4.2 4.1 4.4, 4.2 4.1 4.0
}

TEST(Sampler, BiasCanForceAndForbid) {
  EXPECT_EQ(choose({.logit_bias = {{2, 100.0}}}, {9, 8, 0}), 2);
  EXPECT_EQ(choose({.temperature = 0, .logit_bias = {{0, -100.0}}}, {9, 8, 0}), 1);
  EXPECT_EQ(choose({.temperature = 0, .logit_bias = {{0, 100.0}}}, {-kInfinity, 8, 0}), 1);
}

TEST(Sampler, BadLogitsAreNamedAndChangeNothing) {
  const std::vector<float> good(300, 0.0f);
  auto nan = good, infinite = good;
  nan[257] = kNan;
  infinite[258] = kInfinity;
  Sampler sampler({.seed = 4}, 300), undisturbed({.seed = 4}, 300);
  EXPECT_EQ(sampler.sample(nan).error(), "the logit of token 257 is NaN");
  EXPECT_EQ(sampler.sample(infinite).error(), "the logit of token 258 is +infinity");
  EXPECT_EQ(sampler.sample(std::vector<float>(300, -kInfinity)).error(),
            "all 300 logits are -infinity: no token is left to choose");
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(sampler.sample(good).value().id, undisturbed.sample(good).value().id);
}

std::vector<std::uint64_t> mask_of(const std::vector<bool>& allowed) {
  std::vector<std::uint64_t> mask((allowed.size() + 63) / 64);
  for (std::size_t id = 0; id < allowed.size(); ++id)
    mask[id / 64] |= std::uint64_t{allowed[id]} << (id % 64);
  return mask;
}

TEST(Sampler, MaskIsAsIfOtherTokensWereImpossible) {
  constexpr std::int32_t kVocabSize = 1000;  // the last word of the mask is partly used
  std::mt19937 random(21);
  const SamplingParams kinds[] = {{.temperature = 0},
                                  {.temperature = 0.8, .seed = 3},
                                  {.top_k = 5, .seed = 3},
                                  {.top_p = 0.7, .seed = 3},
                                  {.min_p = 0.2, .seed = 3},
                                  {.repetition_penalty = 1.3, .frequency_penalty = 0.5, .seed = 3},
                                  {.seed = 3, .num_logprobs = 2, .logit_bias = {{7, 4.0}, {500, 3.0}}}};
  for (const SamplingParams& params : kinds) {
    Sampler masked(params, kVocabSize), impossible(params, kVocabSize);
    for (int draw = 0; draw < 60; ++draw) {
      std::vector<float> logits(kVocabSize);
      for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 100;
      std::vector<bool> allowed(kVocabSize);
      const unsigned share = draw % 4 == 0 ? 1 : draw % 4 == 1 ? 300 : 999;
      for (std::size_t id = 0; id < allowed.size(); ++id)
        allowed[id] = random() % 1000 < share || (id < 640 && share == 999);
      allowed[static_cast<std::size_t>(random() % kVocabSize)] = true;
      std::vector<std::uint64_t> mask = mask_of(allowed);
      mask.back() |= ~std::uint64_t{0} << (kVocabSize % 64);  // bits past the vocabulary mean nothing
      auto kept = logits;
      for (std::size_t id = 0; id < allowed.size(); ++id)
        if (!allowed[id]) kept[id] = -kInfinity;
      const SampledToken got = masked.sample(logits, mask).value(), want = impossible.sample(kept).value();
      ASSERT_EQ(got.id, want.id);
      if (!got.logprob) continue;
      // Logprobs stay those of the model.
      ASSERT_EQ(got.top_logprobs[0].id, std::max_element(logits.begin(), logits.end()) - logits.begin());
    }
  }
}

TEST(Sampler, MaskThatLeavesNothingFailsAndChangesNothing) {
  const std::vector<float> logits{1, -kInfinity, 3};
  Sampler sampler({.seed = 4}, 3), undisturbed({.seed = 4}, 3);
  EXPECT_EQ(sampler.sample(logits, mask_of({false, false, false})).error(),
            "the mask allows none of the 3 tokens");
  EXPECT_EQ(sampler.sample(logits, mask_of({false, true, false})).error(),
            "the 1 tokens that the mask allows all have logit -infinity");
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(sampler.sample(logits).value().id, undisturbed.sample(logits).value().id);
  }
}

TEST(Sampler, MaskedDrawsFollowTheSoftmaxOfTheAllowed) {
  constexpr int kNumDraws = 100000;
  const std::vector<float> logits{1.0f, 0.0f, 2.0f, 5.0f, 0.5f};
  const auto mask = mask_of({true, true, true, false, true});
  Sampler sampler({.seed = 42}, 5);
  std::vector<int> counts(5);
  for (int i = 0; i < kNumDraws; ++i)
    ++counts[static_cast<std::size_t>(sampler.sample(logits, mask).value().id)];
  EXPECT_EQ(counts[3], 0);
  // 3 degrees of freedom: chance alone exceeds 32 once in two million.
  EXPECT_LT(chi_square(counts, softmax({1.0f, 0.0f, 2.0f, -kInfinity, 0.5f}, 1.0), kNumDraws), 32);
}

TEST(Sampler, PreviewIsTheDrawThatWillCome) {
  constexpr std::int32_t kVocabSize = 400;
  std::mt19937 random(17);
  std::vector<std::vector<float>> rows(5, std::vector<float>(kVocabSize));
  for (auto& row : rows)
    for (float& logit : row) logit = static_cast<float>(random() % 1000) / 300;
  std::vector<bool> allowed(kVocabSize);
  for (std::size_t id = 0; id < allowed.size(); ++id) allowed[id] = id % 3 == 0;
  const auto mask = mask_of(allowed);
  // A repetition penalty that knows only the prompt's tokens would not do: the output changes it between
  // draws.
  const SamplingParams kinds[] = {
      {.temperature = 0}, {.seed = 8}, {.top_p = 0.8, .seed = 8, .logit_bias = {{3, 2.0}}}};
  for (const SamplingParams& params : kinds) {
    Sampler sampler(params, kVocabSize);
    for (int round = 0; round < 20; ++round) {
      std::vector<TokenId> previews;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        previews.push_back(
            sampler.preview(rows[i], i % 2 == 0 ? mask : std::vector<std::uint64_t>(), i).value());
      }
      for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(sampler.sample(rows[i], i % 2 == 0 ? mask : std::vector<std::uint64_t>()).value().id,
                  previews[i]);
      }
    }
  }
  Sampler penalised({.repetition_penalty = 1.5, .presence_penalty = 0.5, .seed = 8}, kVocabSize);
  const TokenId first = penalised.sample(rows[0]).value().id;
  EXPECT_TRUE(first >= 0);
  const TokenId next = penalised.preview(rows[1], {}, 0).value();
  EXPECT_EQ(penalised.preview(rows[1], {}, 0).value(), next);  // counts nothing
  EXPECT_EQ(penalised.sample(rows[1]).value().id, next);
}

TEST(Sampler, ExtremeFiniteLogitsAndParametersAreSafe) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const std::vector<float> logits{kLargest, -kLargest, 0.0f, kLargest};
  for (const double temperature : {0.0, 1e-5, 1.0, 1e300}) {
    const TokenId id = choose({.temperature = temperature,
                               .top_k = std::numeric_limits<int>::max(),
                               .top_p = 1 - 1e-16,
                               .min_p = 1e-300,
                               .repetition_penalty = 1e300,
                               .seed = 1,
                               .num_logprobs = 20,
                               .logit_bias = {{0, 100}}},
                              logits);
    EXPECT_TRUE(id >= 0 && id < 4);
  }
}

}  // namespace
}  // namespace baleen
