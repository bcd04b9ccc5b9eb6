#include "trainer/optimiser/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace baleen {
namespace {

TEST(Balance, RaisesUnderLoadedAndLowersOverLoaded) {
  std::array<float, 4> bias{0.5F, 0, 0, 0};
  const std::array<std::int64_t, 4> load{10, 2, 6, 6};  // mean 6
  update_bias(load, 0.25, bias);
  EXPECT_EQ(bias, (std::array<float, 4>{0.25F, 0.25F, 0, 0}));
  EXPECT_DOUBLE_EQ(load_balance(load).max_violation, 10.0 / 6 - 1);
  EXPECT_DOUBLE_EQ(load_balance(load).smallest_share, 2.0 / 6);
}

TEST(Balance, NoTokensChangeNothing) {
  std::array<float, 2> bias{1, 2};
  const std::array<std::int64_t, 2> load{};
  update_bias(load, 0.1, bias);
  EXPECT_EQ(bias, (std::array<float, 2>{1, 2}));
  EXPECT_EQ(load_balance(load).max_violation, 0);
}

TEST(Balance, EvensOutASkewedRouter) {
  constexpr std::size_t kExperts = 8;
  std::array<float, kExperts> bias{};
  std::mt19937 random(1);
  std::uniform_real_distribution<float> noise(0, 1);
  double first = 0, last = 0;
  for (int step = 0; step < 600; ++step) {
    std::array<std::int64_t, kExperts> load{};
    for (int token = 0; token < 512; ++token) {
      std::array<float, kExperts> score{};
      for (std::size_t e = 0; e < kExperts; ++e)  // expert 0 is favoured most
        score[e] = noise(random) + 0.1F * static_cast<float>(kExperts - e) + bias[e];
      ++load[static_cast<std::size_t>(std::ranges::max_element(score) - score.begin())];
    }
    if (step == 0) first = load_balance(load).max_violation;
    last = load_balance(load).max_violation;
    update_bias(load, 0.005, bias);
  }
  EXPECT_GT(first, 1.0);
  EXPECT_LT(last, 0.4);
}

}  // namespace
}  // namespace baleen
