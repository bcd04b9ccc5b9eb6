#include "sampling/softmax_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace baleen {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_logits(std::size_t size, float spread) {
  std::mt19937 generator(static_cast<unsigned>(size));
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(generator);
  return logits;
}

TEST(LogitExtremes, FindsMaximumAndNanAtEveryPlace) {
  for (std::size_t size = 1; size <= 40; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      auto logits = random_logits(size, 1.0f);
      logits[at] = 50.0f;
      EXPECT_EQ(logit_extremes(logits).max, 50.0f);
      EXPECT_FALSE(logit_extremes(logits).has_nan);
      logits[at] = kNan;
      EXPECT_TRUE(logit_extremes(logits).has_nan) << size << " " << at;
      logits[at] = kInfinity;
      EXPECT_EQ(logit_extremes(logits).max, kInfinity);
    }
    const std::vector<float> none(size, -kInfinity);
    EXPECT_EQ(logit_extremes(none).max, -kInfinity);
  }
}

TEST(SoftmaxWeights, AgreeWithTheLibraryAndDoNotDependOnTheirPlace) {
  const auto logits = random_logits(67, 20.0f);
  const float max = *std::max_element(logits.begin(), logits.end());
  for (const double temperature : {1e-5, 0.1, 1.0, 3.0, 1e300}) {
    std::vector<double> all(logits.size());
    softmax_weights(logits, max, temperature, -kInfinity, all);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      // The exponent itself is rounded once, and a large one magnifies that.
      const double exponent = (double{logits[i]} - max) * (1.0 / temperature);
      const double want = std::exp(exponent);
      EXPECT_NEAR(all[i], want, 1e-15 * want + 1e-320) << exponent;
      double alone = 0;
      softmax_weights({&logits[i], 1}, max, temperature, -kInfinity, {&alone, 1});
      EXPECT_EQ(alone, all[i]);
    }
  }
}

TEST(SoftmaxWeights, MinusInfinityHasNone) {
  const std::vector<float> logits{0.0f, -kInfinity, std::numeric_limits<float>::lowest()};
  std::vector<double> weights(3, -1.0);
  EXPECT_TRUE(softmax_weights(logits, 0.0f, 1.0, -kInfinity, weights));
  EXPECT_EQ(weights, (std::vector<double>{1.0, 0.0, 0.0}));
}

TEST(SoftmaxWeights, LogitsBelowTheLowestHaveNone) {
  std::vector<float> logits(40, -1.0f);
  std::vector<double> weights(40, -1.0);
  EXPECT_FALSE(softmax_weights(logits, 0.0f, 1.0, -0.5f, weights));
  EXPECT_EQ(weights, std::vector<double>(40, 0.0));
  for (std::size_t at = 0; at < logits.size(); ++at) {
    logits[at] = 0.0f;
    EXPECT_TRUE(softmax_weights(logits, 0.0f, 1.0, 0.0f, weights));
    std::vector<double> want(40, 0.0);
    want[at] = 1.0;
    EXPECT_EQ(weights, want);
    logits[at] = -1.0f;
  }
}

TEST(LogSumExp, MatchesAPlainSumInLongDouble) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{5}, kWeightChunk, kWeightChunk + 1, std::size_t{20000}}) {
    const auto logits = random_logits(size, 5.0f);
    const float max = *std::max_element(logits.begin(), logits.end());
    long double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
    EXPECT_NEAR(log_sum_exp(logits, max), static_cast<double>(std::log(sum)), 1e-13) << size;
  }
}

TEST(LogSumExp, HugeLogitsDoNotOverflow) {
  const std::vector<float> logits{3e38f, 3e38f, -3e38f};
  EXPECT_DOUBLE_EQ(log_sum_exp(logits, 3e38f), double{3e38f} + std::log(2.0));
}

}  // namespace
}  // namespace baleen
