/// Which device is meant, and what has to be known of it to plan memory for it where there is none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/operation/device_traits.h"
#include "ops/operation/step_shape.h"

namespace baleen {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

/// How GPUs of ranks exchange messages.
enum class GpuMessages : std::uint8_t {
  kAutomatic,   ///< through peer memory where all ranks are on one host, else by NCCL
  kPeerMemory,  ///< by kernels that write into each other's memory
  kNccl
};

struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;  ///< of several CUDA devices

  bool operator==(const DeviceChoice&) const = default;
};

/// "cpu", "cuda", "cuda:1", or "auto": the first Hopper GPU that this program can use, the CPU if there is none. Throws
/// `Error` for anything else, and for a CUDA device that cannot be used, saying why.
[[nodiscard]] DeviceChoice device_from_name(std::string_view name);

/// GPUs of one kind whose kernels reach each other's memory: what ranks of this process can run on.
struct GpuGroup {
  std::string name;  ///< as the driver calls them
  std::vector<DeviceChoice> gpus;
};

/// The first Hopper GPU that this program can use, and those of the same name that have access to the memory
/// of all before them, both ways. Empty without a GPU or without CUDA. Initialises the driver: some 100 ms at
/// the first call.
[[nodiscard]] GpuGroup usable_gpus();

/// "cpu", "cuda:0"
[[nodiscard]] std::string device_name(const DeviceChoice& device);

/// The device that a simulated one is planned like.
[[nodiscard]] DeviceChoice device_like(bool is_cpu);

/// Of the device, whether there is one here or not.
[[nodiscard]] DeviceTraits device_traits(const DeviceChoice& device, int num_threads);

/// Whether this program knows the scratch of the device's kernels: it was built with them.
[[nodiscard]] bool knows_scratch(const DeviceTraits& traits);

/// Scratch of the largest operation; 0 where it is not known.
[[nodiscard]] std::int64_t scratch_bytes(const DeviceTraits& traits, const StepShape& shape);

}  // namespace baleen
