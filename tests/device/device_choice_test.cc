#include "device/device_choice.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/profiled_device.h"
#include "tensor/captured_rows.h"

namespace baleen {
namespace {

TEST(DeviceChoice, NamesThatAreNone) {
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda1", "CUDA"}) {
    try {
      static_cast<void>(device_from_name(name));
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("there are cpu, cuda, cuda:N"), std::string::npos)
          << error.what();
    }
  }
  EXPECT_EQ(device_from_name("cpu"), DeviceChoice());
}

TEST(DeviceChoice, AGpuThatIsNotThereIsASentence) {
  try {
    const DeviceChoice choice = device_from_name("cuda:4095");
    ADD_FAILURE() << device_name(choice);
  } catch (const Error& error) {
    EXPECT_GT(std::string(error.what()).size(), 20u);
  }
}

TEST(ProfiledDevice, AGpuIsPlannedWithTheKernelsThatItGets) {
  const auto kernels = [](const char* name) {
    return device_like(*find_device_profile(name)).architecture->name;
  };
  for (const char* name : {"rtx-3090", "rtx-4090", "rtx-5090", "a100-80gb", "l40s", "gb10", "b200"})
    EXPECT_EQ(kernels(name), "sm80") << name;
  for (const char* name : {"h100", "h200", "h20", "h200-baleen", "mi300x"})
    EXPECT_EQ(kernels(name), "sm90") << name;
  EXPECT_TRUE(device_like(*find_device_profile("zen5-2-cores")).is_cpu());
}

TEST(ProfiledDevice, TraitsAreTheCardsOwn) {
  const DeviceTraits card = traits_like(*find_device_profile("rtx-3090"));
  EXPECT_EQ(card.num_units, 82);
  EXPECT_EQ(card.shared_bytes_per_block, 99 << 10);
  EXPECT_EQ(card.l2_bytes, 6 << 20);
  EXPECT_FALSE(card.has_fp8_units);
  EXPECT_LT(card.rates.memory_bytes_per_second, 936e9);
  EXPECT_EQ(traits_like(*find_device_profile("a100-40gb")).shared_bytes_per_block, 163 << 10);
  EXPECT_TRUE(traits_like(*find_device_profile("h100")).has_fp8_units);
  EXPECT_TRUE(traits_like(*find_device_profile("zen5-2-cores")).shares_host_memory);
}

TEST(DeviceChoice, StepsArePaddedToFewSizes) {
  EXPECT_EQ(device_traits({}, 1).padded_rows(7), 7);
  const DeviceTraits gpu = device_traits(planned_gpu(), 1);
  std::int64_t before = 0, sizes = 0;
  for (std::int64_t rows = 1; rows <= kMaxGraphRows; ++rows) {
    const std::int64_t padded = gpu.padded_rows(rows);
    EXPECT_GE(padded, rows);
    EXPECT_LE(padded, std::max(2 * rows, rows + 31));
    EXPECT_GE(padded, before);
    EXPECT_EQ(gpu.padded_rows(padded), padded);
    sizes += padded != before ? 1 : 0;
    before = padded;
  }
  EXPECT_EQ(sizes, 13);  // 1, 2, 4, ..., 32, then every 32
  EXPECT_EQ(gpu.padded_rows(kMaxGraphRows + 1), kMaxGraphRows + 1);
}

}  // namespace
}  // namespace baleen
