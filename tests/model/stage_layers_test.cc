// Layers of stages by memory and speed of their devices.

#include "model/stage_layers.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "model/device_weights.h"
#include "model/presets.h"

namespace baleen {
namespace {

using Layers = std::vector<std::int64_t>;

constexpr std::int64_t kRoom = std::numeric_limits<std::int64_t>::max() / 2;

std::optional<Layers> layers_of(const std::vector<StageDevice>& devices) {
  const ModelConfig config = preset_config("flash");
  return balanced_stage_layers(config, {.dense = config.dense_format, .experts = config.expert_format},
                               devices);
}

std::int64_t sum(const Layers& layers) {
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
}

TEST(StageLayers, OneDeviceHasAllAndEachStageOneAtLeast) {
  EXPECT_EQ(layers_of({{kRoom, 1e12, 0}}), Layers{43});
  // The first is so much faster that it takes all but one.
  EXPECT_EQ(layers_of({{kRoom, 9e12, 0}, {kRoom, 1e12, 0}}), (Layers{42, 1}));
  EXPECT_EQ(layers_of({}), std::nullopt);
  EXPECT_EQ(layers_of(std::vector<StageDevice>(44, {kRoom, 1e12, 0})), std::nullopt);
}

TEST(StageLayers, MemoryIsFilled) {
  const ModelConfig config = preset_config("flash");
  const std::int64_t all =
      device_weight_bytes(config, {.dense = config.dense_format, .experts = config.expert_format});
  // Three quarters and a third: the smaller one gets what it holds, as the larger one is not quicker.
  const auto layers = layers_of({{all * 3 / 4, 1e12, 0}, {all / 3, 1e12, 0}});
  ASSERT_TRUE(layers);
  EXPECT_EQ(sum(*layers), 43);
  EXPECT_GE(layers->front(), 29);
  EXPECT_LE(layers->front(), 32);
  // Neither holds its part, and nothing lies on the host.
  EXPECT_EQ(layers_of({{all / 3, 1e12, 0}, {all / 3, 1e12, 0}}), std::nullopt);
}

/// Where every split takes about as long, several sequences decide.
TEST(StageLayers, StagesTakeEquallyLongWhereThatCostsLittle) {
  constexpr std::int64_t kGB = 1'000'000'000;
  // Copies take most of the time.
  const auto copied = layers_of({{22 * kGB, 1e12, 25e9}, {22 * kGB, 1e12, 25e9}});
  ASSERT_TRUE(copied);
  EXPECT_GE(copied->front(), 20);
  EXPECT_LE(copied->front(), 23);
  // The last stage also reads the head, as much as some five layers of a token.
  const auto resident = layers_of({{kRoom, 1e12, 0}, {kRoom, 1e12, 0}});
  ASSERT_TRUE(resident);
  EXPECT_GE(resident->front(), 24);
  EXPECT_LE(resident->front(), 28);
}

/// Two cards of 24 GB and one of 12: what they have no room for is on the host, and none stands half empty.
TEST(StageLayers, WhatIsAwayComesOverTheLinks) {
  constexpr std::int64_t kGB = 1'000'000'000;
  const auto layers = layers_of({{22 * kGB, 936e9, 23e9}, {22 * kGB, 936e9, 23e9}, {10 * kGB, 936e9, 23e9}});
  ASSERT_TRUE(layers);
  EXPECT_EQ(sum(*layers), 43);
  // A layer is some 3.6 GB: each has more than it holds.
  EXPECT_GE((*layers)[0], 6);
  EXPECT_GE((*layers)[1], 6);
  EXPECT_GE((*layers)[2], 2);
  // With a slow link a device is given no more than it holds.
  const auto slow = layers_of({{22 * kGB, 936e9, 23e9}, {22 * kGB, 936e9, 1e9}});
  ASSERT_TRUE(slow);
  EXPECT_LE(slow->back(), 6);
}

TEST(StageLayers, WeightsBesideTheExpertsNeedRoom) {
  constexpr std::int64_t kMB = 1'000'000;
  EXPECT_EQ(layers_of({{500 * kMB, 1e12, 25e9}, {500 * kMB, 1e12, 25e9}}), std::nullopt);
}

}  // namespace
}  // namespace baleen
