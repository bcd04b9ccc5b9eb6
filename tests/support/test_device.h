/// The device that tests of whole engines run on: the CPU, or what BALEEN_TEST_DEVICE names, used as
/// test_architecture.h says (scripts/test_gpu.sh sets all of it).
#pragma once

#include <chrono>
#include <cstdlib>

#include "comm/shared_gpus.h"
#include "device/device_choice.h"
#include "device/make_device.h"
#include "engine/engine_options.h"
#include "tests/support/test_architecture.h"

namespace baleen::test {

[[nodiscard]] inline DeviceChoice device() {
  const char* name = std::getenv("BALEEN_TEST_DEVICE");
  if (name == nullptr) return {};
  static const bool kPrepared = (prepare_shared_gpus(), true);
  static_cast<void>(kPrepared);
  return device_from_name(name, gpu_use());
}

/// `options` there; of several ranks all on this device.
[[nodiscard]] inline EngineOptions on_device(EngineOptions options, const ModelConfig& config) {
  options.device = device();
  const std::int64_t num_ranks = resolved(options.parallel, config).num_devices;
  if (!options.device.is_cpu() && num_ranks > 1) {
    options.rank_devices.assign(static_cast<std::size_t>(num_ranks), options.device);
    options.longest_wait = std::chrono::seconds(30);
  }
  return options;
}

}  // namespace baleen::test

/// First line of tests of what only the CPU has: the other precisions, reference kernels.
#define BALEEN_CPU_ONLY() \
  if (!::baleen::test::device().is_cpu()) GTEST_SKIP() << "of the CPU alone"
