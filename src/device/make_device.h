/// Devices by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "device/device_kind.h"
#include "ops/operation/forced_variants.h"

namespace baleen {

struct DeviceOptions {
  int num_threads = 1;             ///< CPU
  std::int64_t scratch_bytes = 0;  ///< of the largest operation
  std::int64_t max_rows = 1;       ///< of a step
  std::int64_t max_sequences = 1;  ///< of a step
  std::int64_t max_pages = 1;      ///< in one sequence's page table
  std::vector<ForcedVariant> forced_variants;
  Communicator* communicator = nullptr;  ///< CPU: to other ranks; outlives the device
};

/// What a CUDA device can do at most, measured. Throws `Error` as make_device does.
struct DeviceCeilings {
  std::string name;
  double bytes_per_second = 0;  ///< of a copy, read and written
  double bf16_flops_per_second = 0;
  double fp8_flops_per_second = 0;
};
[[nodiscard]] DeviceCeilings measure_device_ceilings(const DeviceChoice& choice);

/// Throws `Error` when the device cannot be used or has no memory left for its scratch.
[[nodiscard]] std::unique_ptr<Device> make_device(const DeviceChoice& choice, const DeviceOptions& options);

}  // namespace baleen
