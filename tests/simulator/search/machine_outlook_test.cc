// What a machine does with a model that it does not hold, and what would change that.

#include "simulator/search/machine_outlook.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "device/profiled_device.h"
#include "model/presets.h"

namespace baleen {
namespace {

constexpr std::int64_t kGB = 1'000'000'000;

const SimulatedModel& flash() {
  static const SimulatedModel model{"flash", preset_config("flash"), {}};
  return model;
}

/// A card beside a host whose experts may take so much of its memory, and a disk of 5 GB/s.
DeviceProfile machine(const char* card, std::int64_t host_bytes) {
  DeviceProfile profile = *find_device_profile(card);
  profile.memory_levels.front().bytes = host_bytes;
  profile.memory_levels.push_back({.name = "disk", .bytes_per_second = 5e9, .kernel_bytes_per_second = 5e9});
  profile.computes_on_host = true;
  return profile;
}

EngineOptions options_of(const DeviceProfile& device) {
  EngineOptions options{.device = device_like(device), .max_batch_tokens = 4096, .cache_tokens = 32768};
  if (const std::int64_t bytes = device.memory_levels.front().bytes; bytes > 0)
    options.host_expert_bytes = bytes;
  return resolved(options, flash().config);
}

MachineOutlook outlook_of(const DeviceProfile& device) {
  const auto outlook = machine_outlook(flash(), device, options_of(device), {});
  EXPECT_TRUE(outlook);
  return outlook.value_or(MachineOutlook());
}

TEST(MachineOutlook, ACardOf24GigabytesBeside32RunsFlashFromDisk) {
  const DeviceProfile device = machine("rtx-4090", 26 * kGB);
  const MachineOutlook small = outlook_of(device);
  const DevicePlacement placed = placed_on_device(flash(), options_of(device), device.memory_bytes);
  EXPECT_TRUE(placed.fits);
  const ExpertCounts& counts = placed.memory.experts;
  ASSERT_GT(counts.num_on_disk, counts.num_on_host);
  // A token waits for the disk: 6 of 43 layers' experts, of which that share lies there.
  const double share = static_cast<double>(counts.num_on_disk) / static_cast<double>(counts.num_in_all());
  const double reading = 43 * 6 * share * 13.37e6 / 5e9;
  EXPECT_LT(small.one_stream, 1 / reading);
  EXPECT_GT(small.one_stream, 0.8 / reading);
  EXPECT_GT(small.one_stream_zipf, 1.5 * small.one_stream) << "what is used most lies nearest";
  EXPECT_GT(small.streams, small.one_stream);
  // What is on the device and on the host is read at start.
  EXPECT_EQ(small.start_bytes, placed.memory.weight_bytes + placed.memory.host_weight_bytes());
  EXPECT_NEAR(small.start_seconds, static_cast<double>(small.start_bytes) / 5e9, 1e-6);

  const MachineOutlook large = outlook_of(machine("rtx-4090", 0));
  EXPECT_GT(large.one_stream, 5 * small.one_stream);
  EXPECT_GT(large.prompt_tokens_per_second, 2 * small.prompt_tokens_per_second);
}

TEST(MachineOutlook, CoresHelpWhereExpertsLieOnTheHost) {
  DeviceProfile device = machine("rtx-4090", 0);
  const MachineOutlook computed = outlook_of(device);
  device.computes_on_host = false;
  const MachineOutlook fetched = outlook_of(device);
  EXPECT_GT(computed.one_stream, 1.5 * fetched.one_stream);
  EXPECT_DOUBLE_EQ(computed.prompt_tokens_per_second, fetched.prompt_tokens_per_second);
}

TEST(MachineOutlook, WhatIsNotKnownIsNotEstimated) {
  DeviceProfile device = machine("rtx-4090", 26 * kGB);
  device.memory_levels.pop_back();
  EXPECT_FALSE(machine_outlook(flash(), device, options_of(device), {})) << "nothing is known of a disk";
  device = machine("rtx-4090", 0);
  device.memory_bytes = 8 * kGB;
  EXPECT_FALSE(machine_outlook(flash(), device, options_of(device), {})) << "it does not fit";
}

TEST(MachineOutlook, ChangesAreRankedByWhatTheyBring) {
  const DeviceProfile device = machine("rtx-3090", 26 * kGB);
  const MachineOutlook now = outlook_of(device);
  const auto changes = helpful_changes(flash(), device, options_of(device), {}, 32 * kGB);
  ASSERT_GE(changes.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(changes, std::greater{}, &MachineChange::gain));
  for (const MachineChange& change : changes) {
    EXPECT_GE(change.gain, 1.01) << change.what;
    EXPECT_DOUBLE_EQ(change.gain, change.outlook.one_stream / now.one_stream) << change.what;
  }
  EXPECT_NE(changes.front().what.find("GB of host memory instead of 32"), std::string::npos)
      << changes.front().what;
  // As if that were the machine.
  const auto host = std::ranges::find_if(
      changes, [](const MachineChange& change) { return change.what.starts_with("64 GB of host memory"); });
  ASSERT_NE(host, changes.end());
  EXPECT_DOUBLE_EQ(host->outlook.one_stream, outlook_of(machine("rtx-3090", 58 * kGB)).one_stream);
  // A model that fits whole needs none of it.
  DeviceProfile whole = machine("h200", 0);
  whole.memory_bytes *= 2;
  EXPECT_TRUE(helpful_changes(flash(), whole, options_of(whole), {}, 0).empty());
}

/// Beside experts that do not fit on the device, tables of n-grams want the host's memory.
TEST(MachineOutlook, TablesOfV41LieBesideItsExperts) {
  const ModelConfig config = preset_config("v41-flash");
  const SimulatedModel model{
      "v41-flash", config, {.dense = config.dense_format, .experts = config.expert_format}};
  const auto options = [&](const DeviceProfile& device) {
    return resolved({.device = device_like(device),
                     .max_batch_tokens = 4096,
                     .cache_tokens = 32768,
                     .host_expert_bytes = device.memory_levels.front().bytes},
                    config);
  };
  const auto placed = [&](const DeviceProfile& device) {
    return placed_on_device(model, options(device), device.memory_bytes, device.memory_levels.front().bytes);
  };
  const DeviceProfile small = machine("h200", 186 * kGB), large = machine("h200", 506 * kGB);
  EXPECT_TRUE(placed(small).fits);
  EXPECT_EQ(placed(small).memory.engram_place, EngramPlace::kDisk);
  EXPECT_EQ(placed(small).memory.experts.num_on_disk, 0);
  EXPECT_EQ(placed(large).memory.engram_place, EngramPlace::kHost);
  const auto slow = machine_outlook(model, small, options(small), {});
  const auto quick = machine_outlook(model, large, options(large), {});
  ASSERT_TRUE(slow && quick);
  // Two rounds of reads from the disk for a token, 786,432 reads for a prompt of 8,192.
  EXPECT_NEAR(1 / slow->one_stream - 1 / quick->one_stream, 2 * 96e-6, 5e-6);
  EXPECT_GT(quick->prompt_tokens_per_second, 1.15 * slow->prompt_tokens_per_second);
  // What lies on the host is read at start.
  EXPECT_EQ(quick->start_bytes - slow->start_bytes, 202'758'032'400);
  // More memory brings the tables there.
  const auto changes = helpful_changes(model, small, options(small), {}, 192 * kGB);
  EXPECT_FALSE(changes.empty());
  // No host at all: nothing holds them.
  DeviceProfile alone = small;
  alone.memory_levels.clear();
  EXPECT_FALSE(machine_outlook(model, alone, options(small), {}));
}

TEST(MachineOutlook, StagesOfV41AreCutWhereEntriesBegin) {
  const ModelConfig config = preset_config("v41-flash");
  const SimulatedModel model{
      "v41-flash", config, {.dense = config.dense_format, .experts = config.expert_format}};
  const std::vector<DeviceProfile> cards{machine("h200", 0), machine("rtx-5090", 0)};
  const auto staged = staged_outlook(
      model, cards,
      resolved({.device = device_like(cards.front()), .max_batch_tokens = 4096, .cache_tokens = 32768},
               config),
      {});
  ASSERT_TRUE(staged);
  const std::int64_t cut = staged->plan.stage_layers.front();
  EXPECT_TRUE(cut == 2 || cut == 8 || cut == 14 || cut == 20) << cut;
}

TEST(MachineOutlook, UnequalCardsAreAPipelineOfTheirSizes) {
  const std::vector<DeviceProfile> cards{machine("rtx-5090", 0), machine("rtx-3090", 0)};
  const auto staged = staged_outlook(flash(), cards, options_of(cards.front()), {});
  ASSERT_TRUE(staged);
  const std::vector<std::int64_t>& layers = staged->plan.stage_layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), std::int64_t{0}), 43);
  EXPECT_GT(layers.front(), layers.back());
  EXPECT_EQ(staged->plan.pp, 2);
  // Two hold more than either.
  for (const DeviceProfile& card : cards) EXPECT_GT(staged->outlook.one_stream, outlook_of(card).one_stream);
}

}  // namespace
}  // namespace baleen
