/// Which device is meant, and what has to be known of it to plan memory for it where there is none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/gpu_architecture.h"
#include "ops/operation/device_traits.h"
#include "ops/operation/step_shape.h"

namespace baleen {

/// How GPUs of ranks exchange messages.
enum class GpuMessages : std::uint8_t {
  kAutomatic,   ///< through peer memory where all ranks are on one host, else by NCCL
  kPeerMemory,  ///< kernels write into each other's memory
  kHostMemory,  ///< kernels write into pinned memory of the host: of a pipeline's stages, without peer access
  kNccl
};

struct DeviceChoice {
  const GpuArchitecture* architecture = nullptr;  ///< which GPUs, a row of the registry; null: the CPU
  int index = 0;                                  ///< which of several GPUs

  [[nodiscard]] bool is_cpu() const { return architecture == nullptr; }
  bool operator==(const DeviceChoice&) const = default;
};

/// "cpu", "cuda", "cuda:1", or "auto": the first GPU that this program can use, the CPU if there is none. A
/// GPU gets the kernels of `architecture`, a name of the registry; empty: of the first row that runs on it.
/// Throws `Error` for anything else, and for a GPU that cannot be used, saying why.
[[nodiscard]] DeviceChoice device_from_name(std::string_view name, std::string_view architecture = {});

/// Why GPU `index` cannot be used: none there, no kernels for it, its module missing, too old a driver.
/// Empty: it can.
[[nodiscard]] std::string why_not_gpu(int index, std::string_view architecture = {});

/// GPUs of this machine that have kernels, but whose module this program has not: a sentence about the first
/// of them with what to do. Empty: there are none.
[[nodiscard]] std::string why_not_module();

/// GPUs of one kind whose kernels reach each other's memory: what ranks of this process can run on.
struct GpuGroup {
  std::string name;  ///< as the driver calls them
  std::vector<DeviceChoice> gpus;
};

/// The first GPU that this program can use, and those of the same name that have access to the memory of
/// all before them, both ways. Empty where none can be used. Initialises the driver: some 100 ms at the
/// first call.
[[nodiscard]] GpuGroup usable_gpus(std::string_view architecture = {});

/// A GPU of several that need not reach each other's memory, nor be alike.
struct SeparateGpu {
  DeviceChoice choice;
  std::string name;             ///< as the driver calls it
  std::int64_t free_bytes = 0;  ///< memory that it has left
};

/// The GPUs that this program can use with the kernels that the first of them gets. Opens each of them.
[[nodiscard]] std::vector<SeparateGpu> separate_gpus(std::string_view architecture = {});

/// GPUs that the driver has; 0 without a driver.
[[nodiscard]] int num_gpus();

/// "cpu", "cuda:0"
[[nodiscard]] std::string device_name(const DeviceChoice& device);

/// GPU `index` of the registry's first architecture, whether there is one here or not: for plans.
[[nodiscard]] DeviceChoice planned_gpu(int index = 0);

/// Of the device, whether there is one here or not.
[[nodiscard]] DeviceTraits device_traits(const DeviceChoice& device, int num_threads);

/// Why the scratch of the device's kernels is not known: its module is missing. Empty: it is known.
[[nodiscard]] std::string why_not_scratch(const DeviceTraits& traits);

/// Scratch of the largest operation; 0 where it is not known.
[[nodiscard]] std::int64_t scratch_bytes(const DeviceTraits& traits, const StepShape& shape);

}  // namespace baleen
