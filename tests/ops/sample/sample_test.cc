// The operation's reference against the sampler that serves requests on the host.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/sample/sample.h"
#include "sampling/philox.h"
#include "sampling/sampler.h"
#include "tests/support/random_weights.h"

namespace baleen {
namespace {

TokenId reference(const std::vector<float>& logits, const SampleRow& row) {
  TokenId id = -99;
  sample_ref({.logits = {logits.data(), {1, static_cast<std::int64_t>(logits.size())}},
              .rows = {&row, 1},
              .ids = {&id, 1}});
  return id;
}

TEST(SampleReference, IsTheSampler) {
  constexpr std::size_t kVocab = 1500;
  const std::vector<SampleRow> rows = {
      {.temperature = 0.0},
      {.temperature = 1.0},
      {.temperature = 0.6, .top_k = 40},
      {.temperature = 1.3, .top_p = 0.9},
      {.temperature = 1.0, .min_p = 0.05},
      {.temperature = 0.8, .top_k = 100, .top_p = 0.95, .min_p = 0.01},
      {.temperature = 30.0, .top_k = 7},
      {.temperature = 1.0, .top_p = 1e-9},
  };
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    std::vector<float> logits = test::random_values(kVocab, seed, 3.0F);
    if (seed % 3 == 1) {
      for (float& logit : logits) logit = std::rint(logit);  // many equals
    }
    if (seed % 3 == 2) std::fill_n(logits.begin(), 700, -std::numeric_limits<float>::infinity());
    for (SampleRow row : rows) {
      Sampler sampler({.temperature = row.temperature,
                       .top_k = row.top_k,
                       .top_p = row.top_p,
                       .min_p = row.min_p,
                       .seed = seed},
                      kVocab);
      for (std::uint64_t draw = 0; draw < 3; ++draw) {
        row.uniform = uniform_draw(seed, draw);
        EXPECT_EQ(reference(logits, row), sampler.sample(logits).value().id)
            << seed << ", " << row.temperature;
      }
    }
  }
}

TEST(SampleReference, RefusesWhatTheSamplerRefuses) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 1.0}) {
    const SampleRow row{.temperature = temperature};
    EXPECT_EQ(reference({1, std::nanf(""), 2}, row), kNoToken);
    EXPECT_EQ(reference({1, kInfinity, 2}, row), kNoToken);
    EXPECT_EQ(reference({-kInfinity, -kInfinity}, row), kNoToken);
    EXPECT_EQ(reference({-kInfinity, 3, -kInfinity}, row), 1);
  }
}

}  // namespace
}  // namespace baleen
