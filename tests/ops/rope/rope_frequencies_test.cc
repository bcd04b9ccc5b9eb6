// Frequencies and angles against the specification's table and against a table of the NumPy forward pass.
#include "ops/rope/rope_frequencies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "tests/support/compare.h"

namespace baleen {
namespace {

const YarnParams kYarn;

TEST(RopeFrequencies, WithYarnAreThoseOfTheSpecification) {
  // (source: forward pass 14, float64 with nine digits; the float32 recipe differs by a unit or two in the
  // last place)
  const std::vector<float> want = {1,
                                   0.687656022F,
                                   0.472870805F,
                                   0.325172456F,
                                   0.223606798F,
                                   0.153764561F,
                                   0.105737126F,
                                   0.0727107717F,
                                   0.05F,
                                   0.0343828011F,
                                   0.0236435402F,
                                   0.0162586228F,
                                   0.0111803399F,
                                   0.00768822805F,
                                   0.00528685632F,
                                   0.00363553858F,
                                   0.002265625F,
                                   0.00139680129F,
                                   8.49689727e-4F,
                                   5.08081963e-4F,
                                   2.96977778e-4F,
                                   1.68179989e-4F,
                                   9.0867843e-5F,
                                   4.54442323e-5F,
                                   1.953125e-5F,
                                   5.37231267e-6F,
                                   3.69430316e-6F,
                                   2.54040981e-6F,
                                   1.74692811e-6F,
                                   1.20128563e-6F,
                                   8.260713e-7F,
                                   5.68052904e-7F};
  EXPECT_CLOSE(rope_frequencies(160000.0F, 64, &kYarn), want, {.relative = 3e-7});
}

TEST(RopeFrequencies, WithoutYarnArePowersOfTheBase) {
  const std::vector<float> got = rope_frequencies(10000.0F, 64, nullptr);
  ASSERT_EQ(got.size(), 32u);
  EXPECT_EQ(got[0], 1.0F);
  EXPECT_NEAR(got[1], 0.749894209, 1e-7);
  EXPECT_NEAR(got[31], 1.33352143e-4, 2e-11);
}

TEST(RopeFrequencies, RampOfOnePairIsAStep) {
  // Both ends of the ramp, before pair 0, are moved to it: it stays, all later ones are divided.
  const YarnParams yarn{.factor = 8.0F, .original_positions = 64, .beta_fast = 20.0F, .beta_slow = 20.0F};
  const std::vector<float> plain = rope_frequencies(100.0F, 8, nullptr);
  const std::vector<float> got = rope_frequencies(100.0F, 8, &yarn);
  EXPECT_EQ(got[0], plain[0]);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(got[i], plain[i] / 8.0F);
}

TEST(RopeAngles, AreThoseOfTheNumPyForwardPassUpToTheLastPosition) {
  std::ifstream file("tests/ops/rope/rope_golden.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  ASSERT_EQ(golden.size(), 26u);
  for (const nlohmann::json& row : golden) {
    const bool compressed = row["compressed"];
    const std::int64_t position = row["position"];
    const auto frequencies =
        rope_frequencies(compressed ? 160000.0F : 10000.0F, 64, compressed ? &kYarn : nullptr);
    std::vector<float> cosine(32), sine(32);
    rope_angles(frequencies, position, cosine, sine);
    // An error of one unit in the last place of a frequency would show as 0.05 at the last position.
    EXPECT_CLOSE(cosine, row["cosine"].get<std::vector<float>>(), {.absolute = 1.3e-7}) << position;
    EXPECT_CLOSE(sine, row["sine"].get<std::vector<float>>(), {.absolute = 1.3e-7}) << position;
  }
}

TEST(RotatePairs, TurnsInterleavedPairs) {
  const std::vector<float> cosine = {0.0F, -1.0F};
  const std::vector<float> sine = {1.0F, 0.0F};
  std::vector<float> values = {3, 4, 5, 6};
  rotate_pairs(values, cosine, sine);
  EXPECT_SAME_BITS(values, (std::vector<float>{-4, 3, -5, -6}));
}

}  // namespace
}  // namespace baleen
