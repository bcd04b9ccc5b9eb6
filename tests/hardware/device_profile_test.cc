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
  EXPECT_EQ(find_profile_of_gpu("NVIDIA A100"), nullptr);
  EXPECT_EQ(find_profile_of_gpu(""), nullptr);
  EXPECT_EQ(find_calibrated_profile_of_gpu("NVIDIA H200"), find_device_profile("h200-baleen"));
  EXPECT_EQ(find_calibrated_profile_of_gpu("NVIDIA H20"), find_device_profile("h20"));
  EXPECT_EQ(find_calibrated_profile_of_gpu("NVIDIA A100"), nullptr);
}

TEST(DeviceProfile, EveryFigureSaysWhereItIsFrom) {
  for (const DeviceProfile& profile : device_profiles()) {
    EXPECT_FALSE(profile.description.empty()) << profile.name;
    const Json json = Json::parse(profile_text(profile));
    for (const auto& [name, value] : json.items()) {
      const bool is_figure = (value.is_number() && value != 0) || name == "peak_flops" ||
                             name == "efficiency" || (name == "links" && !value.empty());
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
    EXPECT_GT(profile.peak(PeakFormat::kBf16), 1e14) << profile.name;
    EXPECT_GE(profile.peak(PeakFormat::kBf16), profile.peak(PeakFormat::kFp32)) << profile.name;
    EXPECT_GT(profile.memory_bytes, std::int64_t{32} << 30) << profile.name;
    EXPECT_GT(profile.memory_bytes_per_second, 1e12) << profile.name;
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
  profile.memory_levels = {
      {.name = "host", .bytes = 7, .bytes_per_second = 5e10, .kernel_bytes_per_second = 4e10}};
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
