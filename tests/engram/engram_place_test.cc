// Where tables go: the nearest place with room, the one that is wanted, or the sentence.
#include "engram/engram_place.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;

EngramRoom room(std::int64_t device, std::int64_t host) {
  return {.table_bytes = 200 * kGigabyte,
          .free_device_bytes = device * kGigabyte,
          .free_host_bytes = host * kGigabyte};
}

EngramPlace chosen(EngramWish wish, const EngramRoom& room) {
  const Result<EngramPlace> place = choose_engram_place(wish, room);
  EXPECT_TRUE(place.ok()) << place.error();
  return place.value();
}

TEST(EngramPlace, AutoTakesTheNearestWithRoom) {
  EXPECT_EQ(chosen(EngramWish::kAuto, room(200, 1000)), EngramPlace::kDevice);
  EXPECT_EQ(chosen(EngramWish::kAuto, room(199, 1000)), EngramPlace::kHost);
  EXPECT_EQ(chosen(EngramWish::kAuto, room(0, 223)), EngramPlace::kHost);
  EXPECT_EQ(chosen(EngramWish::kAuto, room(0, 222)), EngramPlace::kDisk);  // a tenth is left to others
}

TEST(EngramPlace, WhatIsAskedForIsTakenOrRefused) {
  EXPECT_EQ(chosen(EngramWish::kGpu, room(200, 0)), EngramPlace::kDevice);
  EXPECT_EQ(chosen(EngramWish::kHost, room(500, 500)), EngramPlace::kHost);
  EXPECT_EQ(chosen(EngramWish::kDisk, room(500, 500)), EngramPlace::kDisk);
  EXPECT_EQ(
      choose_engram_place(EngramWish::kGpu, room(140, 900)).error(),
      "the Engram tables take 200.00 GB, where 140.00 GB of the GPU's memory are left beside weights and "
      "cache; try ‹Engram tables› host or disk");
  EXPECT_EQ(choose_engram_place(EngramWish::kHost, room(900, 128)).error(),
            "the Engram tables take 200.00 GB, where 128.00 GB of the host's memory are free; try ‹Engram "
            "tables› disk");
}

TEST(EngramPlace, TheCpuReadsTheMap) {
  EngramRoom cpu = room(0, 1000);
  cpu.shares_host_memory = true;
  EXPECT_EQ(chosen(EngramWish::kAuto, cpu), EngramPlace::kMapped);
  EXPECT_EQ(chosen(EngramWish::kDisk, cpu), EngramPlace::kMapped);
  EXPECT_EQ(chosen(EngramWish::kHost, cpu), EngramPlace::kHost);
  EXPECT_EQ(choose_engram_place(EngramWish::kGpu, cpu).error(),
            "‹Engram tables› in a GPU's memory: the CPU computes; try host or disk");
}

}  // namespace
}  // namespace baleen
