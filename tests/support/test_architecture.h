/// The architecture whose kernels tests on GPUs run: the best that there is, or what BALEEN_TEST_ARCH names.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "device/device_choice.h"
#include "device/gpu_architecture.h"

namespace baleen::test {

/// Empty: the best.
[[nodiscard]] inline std::string_view test_architecture() {
  const char* name = std::getenv("BALEEN_TEST_ARCH");
  return name == nullptr ? std::string_view() : name;
}

/// `planned_gpu`, of that architecture.
[[nodiscard]] inline DeviceChoice test_gpu(int index = 0) {
  DeviceChoice gpu = planned_gpu(index);
  if (!test_architecture().empty())
    gpu.architecture = &architecture_by_name(gpu_architectures(), test_architecture());
  return gpu;
}

/// A variant's name on it: "sm90/any" of "any", "sm90" of nothing.
[[nodiscard]] inline std::string variant_name(std::string_view name = {}) {
  const std::string architecture(test_gpu().architecture->name);
  return name.empty() ? architecture : architecture + "/" + std::string(name);
}

}  // namespace baleen::test
