// Device profiles: those of the program, and what is said of files that are wrong.

#include "hardware/device_profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

TEST(DeviceProfile, TheProgramHasThoseThatPeopleAskFor) {
  for (const char* name : {"h200", "H100", "h20", "h800", "b200", "gb300", "mi300x", "ATLAS_800_A2_376T_64G",
                           "ATLAS_800_A3_752T_128G_DIE", "ATLAS_950_486T_128G"})
    EXPECT_NE(find_device_profile(name), nullptr) << name;
  EXPECT_EQ(find_device_profile("h2000"), nullptr);
}

TEST(DeviceProfile, OfAGpuByItsDriversName) {
  EXPECT_EQ(find_profile_of_gpu("NVIDIA H200"), find_device_profile("h200"));
  EXPECT_EQ(find_profile_of_gpu("NVIDIA H100 80GB HBM3"), find_device_profile("h100"));
  EXPECT_EQ(find_profile_of_gpu("NVIDIA H20"), find_device_profile("h20"));
  EXPECT_EQ(find_profile_of_gpu("NVIDIA V100"), nullptr);
  EXPECT_EQ(find_profile_of_gpu(""), nullptr);
  for (const auto& [driver_name, name] :
       {std::pair{"NVIDIA GeForce RTX 3090", "rtx-3090"},
        {"NVIDIA GeForce RTX 4090", "rtx-4090"},
        {"NVIDIA GeForce RTX 5090", "rtx-5090"},
        {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000-blackwell"},
        {"NVIDIA A100-SXM4-40GB", "a100-40gb"},
        {"NVIDIA A100 80GB PCIe", "a100-80gb"},
        {"NVIDIA A800-SXM4-80GB", "a800"},
        {"NVIDIA L40S", "l40s"},
        {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"},
        {"NVIDIA RTX A6000", "rtx-a6000"},
        {"NVIDIA GB10", "gb10"},
        {"NVIDIA B200", "b200"}}) {
    EXPECT_EQ(find_profile_of_gpu(driver_name), find_device_profile(name)) << driver_name;
    EXPECT_NE(find_device_profile(name), nullptr) << name;
  }
  EXPECT_EQ(find_profile_of_gpu("NVIDIA L40"), nullptr);
  EXPECT_EQ(find_profile_of_gpu("NVIDIA GeForce RTX 4090 Laptop GPU"), nullptr);
  EXPECT_EQ(find_calibrated_profile_of_gpu("NVIDIA H200"), find_device_profile("h200-baleen"));
  EXPECT_EQ(find_calibrated_profile_of_gpu("NVIDIA H20"), find_device_profile("h20"));
  EXPECT_EQ(find_calibrated_profile_of_gpu("NVIDIA V100"), nullptr);
}

TEST(DeviceProfile, EveryFigureSaysWhereItIsFrom) {
  for (const DeviceProfile& profile : device_profiles()) {
    EXPECT_FALSE(profile.description.empty()) << profile.name;
    const Json json = Json::parse(profile_text(profile));
    for (const auto& [name, value] : json.items()) {
      const bool is_figure = (value.is_number() && value != 0) || name == "peak_flops" ||
                             name == "efficiency" || name == "pcie" || name == "compute_capability" ||
                             ((name == "links" || name == "memory_levels") && !value.empty());
      if (!is_figure) continue;
      const auto source = profile.sources.find(name);
      ASSERT_NE(source, profile.sources.end()) << profile.name << " " << name;
      EXPECT_GT(source->second.size(), 8u) << profile.name << " " << name;
    }
  }
}

TEST(DeviceProfile, FiguresLieWhereDevicesCanBe) {
  for (const DeviceProfile& profile : device_profiles()) {
    if (profile.is_cpu) continue;
    EXPECT_GT(profile.peak(PeakFormat::kBf16), 5e13) << profile.name;
    EXPECT_GE(profile.peak(PeakFormat::kBf16), profile.peak(PeakFormat::kFp32)) << profile.name;
    EXPECT_GT(profile.memory_bytes, std::int64_t{23} << 30) << profile.name;
    EXPECT_GT(profile.memory_bytes_per_second, 2.5e11) << profile.name;
    EXPECT_LT(profile.memory_bytes_per_second, 2e13) << profile.name;
    for (const double share :
         {profile.efficiency.compute, profile.efficiency.memory, profile.efficiency.scalar})
      EXPECT_TRUE(share > 0 && share <= 1) << profile.name;
    EXPECT_GT(profile.graph_seconds, 0) << profile.name;
    EXPECT_GE(profile.eager_seconds, profile.graph_seconds) << profile.name;
    EXPECT_LT(profile.reserved_bytes, profile.memory_bytes / 4) << profile.name;
    ASSERT_FALSE(profile.links.empty()) << profile.name;
    for (std::size_t i = 1; i < profile.links.size(); ++i) {
      EXPECT_GE(profile.links[i].latency_seconds, profile.links[i - 1].latency_seconds) << profile.name;
      EXPECT_LE(profile.links[i].bytes_per_second, profile.links[i - 1].bytes_per_second) << profile.name;
    }
  }
}

TEST(DeviceProfile, CardsOfDataSheetsSaySo) {
  for (const char* name : {"rtx-3090", "rtx-4090", "rtx-5090", "rtx-pro-6000-blackwell", "a100-40gb",
                           "a100-80gb", "a800", "l40s", "gb10", "b200", "rtx-6000-ada", "rtx-a6000"}) {
    const DeviceProfile* profile = find_device_profile(name);
    ASSERT_NE(profile, nullptr) << name;
    EXPECT_NE(listed_text(*profile).find("data sheet, not measured"), std::string::npos) << name;
    EXPECT_TRUE(profile->operations.empty()) << name << " has measured figures";
    // What kernels are chosen by.
    EXPECT_GE(profile->capability_major, 8) << name;
    EXPECT_GE(profile->shared_bytes_per_block, 99 << 10) << name;
    EXPECT_GT(profile->l2_bytes, 0) << name;
    EXPECT_GT(profile->num_units, 0) << name;
    // The GB10's processor and GPU share one memory.
    EXPECT_EQ(profile->pcie_generation > 0, profile->name != "gb10") << name;
    ASSERT_FALSE(profile->memory_levels.empty()) << name;
    EXPECT_EQ(profile->memory_levels.front().bytes > 0, profile->name == "gb10") << name;
    EXPECT_EQ(profile->memory_levels.front().compute.any(), profile->name != "gb10") << name;
  }
  const DeviceProfile& card = *find_device_profile("rtx-3090");
  EXPECT_EQ(card.shared_bytes_per_block, 99 << 10);
  EXPECT_EQ(find_device_profile("a100-80gb")->shared_bytes_per_block, 163 << 10);
  EXPECT_EQ(card.capability_minor, 6);
  EXPECT_EQ(listed_text(*find_device_profile("h200-baleen")).find("data sheet"), std::string::npos);
}

TEST(DeviceProfile, NoCopyIsQuickerThanItsLink) {
  EXPECT_NEAR(16 * pcie_lane_bytes_per_second(4), 31.5e9, 0.1e9);
  EXPECT_NEAR(16 * pcie_lane_bytes_per_second(3), pcie_lane_bytes_per_second(4) * 8, 1);
  EXPECT_EQ(pcie_lane_bytes_per_second(7), 0);
  for (const DeviceProfile& profile : device_profiles()) {
    if (profile.pcie_generation == 0) continue;
    const double link =
        static_cast<double>(profile.pcie_lanes) * pcie_lane_bytes_per_second(profile.pcie_generation);
    for (const MemoryLevel& level : profile.memory_levels) {
      EXPECT_LT(level.bytes_per_second, 0.9 * link) << profile.name;
      EXPECT_LE(level.kernel_bytes_per_second, level.bytes_per_second) << profile.name;
    }
  }
}

/// One with everything that a calibration writes.
std::string full_text() {
  DeviceProfile profile = *find_device_profile("h200");
  profile.name = "mine";
  profile.operations["linear"] = {.points = {{.num_rows = 1, .memory = 0.5, .static_seconds = 1e-6},
                                             {.num_rows = 64, .compute = 0.7, .scalar = 0.1}},
                                  .overlaps_scalar = true,
                                  .rows_per_tile = 64};
  profile.links.front().mesh = true;
  profile.messages["all_reduce"] = {.points = {{1e3, 1e-6}, {1e6, 9e-6}},
                                    .num_ranks = 2,
                                    .seconds_per_further_rank = 5e-7,
                                    .whole_up_to_bytes = 4096};
  profile.memory_levels = {{.name = "host",
                            .bytes = 7,
                            .bytes_per_second = 5e10,
                            .kernel_bytes_per_second = 4e10,
                            .compute = {.bytes_per_second = 8e10,
                                        .beside_copies_bytes_per_second = 6e10,
                                        .copies_beside_bytes_per_second = 3e10,
                                        .row_seconds = 2e-5,
                                        .hand_over_seconds = 1e-5}}};
  profile.computes_on_host = true;
  profile.most_weight_bytes = 12345;
  profile.graph_overlap_seconds = 1e-6;
  return profile_text(profile);
}

TEST(DeviceProfile, TextAndBack) {
  for (const DeviceProfile& profile : device_profiles()) {
    const std::string text = profile_text(profile);
    EXPECT_EQ(profile_text(parse_device_profile(text, profile.name)), text);
  }
  EXPECT_EQ(profile_text(parse_device_profile(full_text(), "full")), full_text());
}

void expect_error(const std::string& text, const std::string& part) {
  try {
    static_cast<void>(parse_device_profile(text, "mine.json"));
    ADD_FAILURE() << "accepted; expected " << part;
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find(part), std::string::npos) << what;
    EXPECT_NE(what.find("mine.json"), std::string::npos) << what;
  }
}

TEST(DeviceProfile, WrongFieldsAreNamed) {
  const auto with = [](const std::string& pointer, const Json& value) {
    Json json = Json::parse(full_text());
    json[Json::json_pointer(pointer)] = value;
    return json.dump();
  };
  const auto without = [](const char* name) {
    Json json = Json::parse(full_text());
    json.erase(name);
    return json.dump();
  };
  expect_error("", "not JSON");
  expect_error("{\"name\": ", "not JSON");
  expect_error("[]", "expected an object");
  for (const char* name :
       {"name", "memory_bytes", "memory_bytes_per_second", "scalar_ops_per_second", "peak_flops"})
    expect_error(without(name), name);
  expect_error(without("efficiency"), "efficiency.compute");
  expect_error(with("/memory_byte", 3), "mine.json.memory_byte");
  expect_error(with("/peak_flops/fp6", 3), "peak_flops.fp6");
  expect_error(with("/memory_bytes", "much"), "memory_bytes: expected a whole number");
  expect_error(with("/memory_bytes", -1), "memory_bytes");
  expect_error(with("/memory_bytes", 1.5), "memory_bytes: expected a whole number");
  expect_error(with("/memory_bytes", 1e300), "memory_bytes");
  expect_error(with("/name", 7), "name: expected a text");
  expect_error(with("/name", ""), "name is missing");
  expect_error(with("/from_data_sheet", 1), "from_data_sheet: expected true or false");
  for (const char* capability : {"9", "9.", ".0", "9.x", "sm_90", "9.0.1", "-9.0", "900.0"})
    expect_error(with("/compute_capability", capability), "compute_capability: expected");
  expect_error(with("/pcie", 4), "pcie: expected an object");
  expect_error(with("/pcie/generation", 9), "pcie.generation");
  expect_error(with("/pcie", {{"generation", 4}}), "pcie.lanes");
  expect_error(with("/is_cpu", 1), "is_cpu: expected true or false");
  expect_error(with("/efficiency", 1), "efficiency: expected an object");
  expect_error(with("/efficiency/compute", 40), "efficiency.compute");
  expect_error(with("/efficiency/compute", 0), "efficiency.compute");
  expect_error(with("/links", "none"), "links: expected a list");
  expect_error(with("/links/0/size", 0), "links[0].size");
  expect_error(with("/links/0/bytes_per_second", nullptr), "links[0].bytes_per_second");
  expect_error(with("/links/1/size", 8), "links[1].size");
  expect_error(with("/links/0/width", 8), "links[0].width");
  expect_error(with("/operations", 1), "operations: expected an object");
  expect_error(with("/operations/linear/points", 1), "operations.linear.points: expected a list");
  expect_error(with("/operations/linear/points/1/rows", 1), "expected rising");
  expect_error(with("/operations/linear/points/0/compute", 5), "points[0].compute");
  expect_error(with("/operations/linear/speed", 5), "operations.linear.speed");
  expect_error(with("/messages", 1), "messages: expected an object");
  expect_error(with("/messages/all_reduce/points", 1), "messages.all_reduce.points: expected a list");
  expect_error(with("/messages/all_reduce/points", Json::array()), "all_reduce.points: expected a list");
  expect_error(with("/messages/all_reduce/points/1/bytes", 1e3), "expected rising");
  expect_error(with("/messages/all_reduce/num_ranks", 1), "all_reduce.num_ranks");
  expect_error(with("/memory_levels", 1), "memory_levels: expected a list");
  expect_error(with("/memory_levels/0", {{"name", "host"}, {"bytes_per_second", 1e9}}),
               "memory_levels[0].kernel_bytes_per_second: missing");
  expect_error(with("/memory_levels/0/speed", 5), "memory_levels[0].speed");
  expect_error(with("/memory_levels/0/compute", 5), "memory_levels[0].compute: expected an object");
  expect_error(with("/memory_levels/0/compute/bytes_per_second", 0), "compute.bytes_per_second: missing");
  expect_error(with("/memory_levels/0/compute/speed", 5), "memory_levels[0].compute.speed");
  expect_error(with("/computes_on_host", 1), "computes_on_host: expected true or false");
  expect_error(with("/sources/memory_bytes", 5), "sources.memory_bytes");
}

TEST(DeviceProfile, MessagesAreReadBetweenTheirPoints) {
  const MessageTimes times{.points = {{1000, 2e-6}, {2000, 3e-6}, {4000, 7e-6}}};
  EXPECT_NEAR(times.seconds_of(10), 2e-6, 1e-15) << "the least that a message takes";
  EXPECT_NEAR(times.seconds_of(1500), 2.5e-6, 1e-15);
  EXPECT_NEAR(times.seconds_of(4000), 7e-6, 1e-15);
  EXPECT_NEAR(times.seconds_of(6000), 11e-6, 1e-15) << "at the rate of the last two";
  EXPECT_DOUBLE_EQ((MessageTimes{.points = {{1000, 2e-6}}}.seconds_of(1e6)), 2e-6);
}

TEST(DeviceProfile, AnUnknownNameListsAll) {
  try {
    static_cast<void>(load_device_profile("h2000"));
    FAIL();
  } catch (const Error& error) {
    for (const DeviceProfile& profile : device_profiles())
      EXPECT_NE(std::string(error.what()).find(profile.name), std::string::npos) << profile.name;
  }
  EXPECT_THROW(static_cast<void>(load_device_profile("/nowhere/mine.json")), Error);
}

}  // namespace
}  // namespace baleen
