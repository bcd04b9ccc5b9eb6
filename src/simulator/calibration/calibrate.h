/// Measures a machine with the engine's own kernels and writes down what they reach: a device profile of it.
///
/// Ceilings first (memory, arithmetic), then steps of models with made-up weights, of different sizes and
/// over a range of rows and contexts; for every operation and number of rows the shares of the ceilings that
/// its times amount to.
#pragma once

#include <functional>
#include <string>

#include "device/device_choice.h"
#include "hardware/device_profile.h"
#include "parallel/thread_pool.h"

namespace baleen {

struct CalibrationOptions {
  DeviceChoice device;
  int num_threads = 0;         ///< CPU; 0: every processor of this process
  bool quick = false;          ///< fewer steps of smaller models: seconds on a CPU
  std::string name = "local";  ///< what the profile is called
  std::string date;            ///< for the sources, as "2026-11-21"
  /// Adds to a CPU's profile what others measure of it.
  std::function<void(DeviceProfile& profile, ThreadPool& pool)> measure_further = {};
};

/// UTC, as sources have it.
[[nodiscard]] std::string today();

/// Progress on standard error. A GPU's profile takes links, memory and reserves from the program's own
/// profile of that GPU. Throws `Error` when the device cannot be used, has no room for the models, or is a
/// GPU that no profile is of.
[[nodiscard]] DeviceProfile calibrate(const CalibrationOptions& options);

}  // namespace baleen
