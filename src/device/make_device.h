/// Devices by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/device.h"
#include "device/device_kind.h"

namespace baleen {

struct DeviceOptions {
  int num_threads = 1;             ///< CPU
  std::int64_t scratch_bytes = 0;  ///< of the largest operation
  std::int64_t max_rows = 1;       ///< of a step
  std::int64_t max_sequences = 1;  ///< of a step
  std::int64_t max_pages = 1;      ///< in one sequence's page table
  Kernels kernels = Kernels::kBest;
};

/// Throws `Error` when the device cannot be used or has no memory left for its scratch.
[[nodiscard]] std::unique_ptr<Device> make_device(const DeviceChoice& choice, const DeviceOptions& options);

}  // namespace baleen
