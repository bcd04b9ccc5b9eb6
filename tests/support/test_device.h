/// The device that tests of whole engines run on: the CPU, or what BALEEN_TEST_DEVICE names (scripts/test_gpu.sh sets it).
#pragma once

#include <cstdlib>

#include "device/device_kind.h"

namespace baleen::test {

[[nodiscard]] inline DeviceChoice device() {
  const char* name = std::getenv("BALEEN_TEST_DEVICE");
  return device_from_name(name == nullptr ? "cpu" : name);
}

}  // namespace baleen::test

/// First line of tests of what only the CPU has: the other precisions, reference kernels.
#define BALEEN_CPU_ONLY() \
  if (::baleen::test::device().kind != ::baleen::DeviceKind::kCpu) GTEST_SKIP() << "of the CPU alone"
