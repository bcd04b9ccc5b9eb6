#include "device/device_choice.h"

#include <gtest/gtest.h>

#include "base/error.h"
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
