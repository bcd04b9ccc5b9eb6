/// What GPUs are in tests: the architecture whose kernels they run (the best that there is, or what
/// BALEEN_TEST_ARCH names) and the card whose traits are imposed on them (none, or what BALEEN_TEST_CARD
/// names).
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "device/device_choice.h"
#include "device/gpu_architecture.h"
#include "device/imposed_card.h"

namespace baleen::test {

[[nodiscard]] inline GpuUse gpu_use() {
  const auto environment = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string_view() : value;
  };
  return {environment("BALEEN_TEST_ARCH"), environment("BALEEN_TEST_CARD")};
}

/// `planned_gpu`, used so.
[[nodiscard]] inline DeviceChoice test_gpu(int index = 0) {
  DeviceChoice gpu = planned_gpu(index);
  const GpuUse use = gpu_use();
  if (!use.card.empty()) {
    gpu.as_card = &card_by_name(use.card);
    gpu.architecture = &choose_architecture(gpu_architectures(), gpu.as_card->name,
                                            capability_of(*gpu.as_card), use.architecture);
  } else if (!use.architecture.empty()) {
    gpu.architecture = &architecture_by_name(gpu_architectures(), use.architecture);
  }
  return gpu;
}

/// A variant's name on it: "sm90/any" of "any", "sm90" of nothing.
[[nodiscard]] inline std::string variant_name(std::string_view name = {}) {
  const std::string architecture(test_gpu().architecture->name);
  return name.empty() ? architecture : architecture + "/" + std::string(name);
}

}  // namespace baleen::test
