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

struct DeviceProfile;  // hardware/device_profile.h

struct DeviceChoice {
  const GpuArchitecture* architecture = nullptr;  ///< which GPUs, a row of the registry; null: the CPU
  int index = 0;                                  ///< which of several GPUs
  const DeviceProfile* as_card = nullptr;         ///< whose traits are imposed on it; null: it has its own

  [[nodiscard]] bool is_cpu() const { return architecture == nullptr; }
  bool operator==(const DeviceChoice&) const = default;
};

/// What GPUs are to be used as.
struct GpuUse {
  /// Whose kernels they get, a name of the registry; empty: the first row that runs on them.
  std::string_view architecture = {};
  /// Whose traits are imposed on them (device/imposed_card.h), a device profile's name; empty: they have
  /// their own.
  std::string_view card = {};
};

/// "cpu", "cuda", "cuda:1", or "auto": the first GPU that this program can use, the CPU if there is none.
/// Throws `Error` for anything else, and for a GPU that cannot be used, or not so, saying why.
[[nodiscard]] DeviceChoice device_from_name(std::string_view name, const GpuUse& use = {});

/// Why GPU `index` cannot be used: none there, no kernels for it, its module missing, too old a driver.
/// Empty: it can.
[[nodiscard]] std::string why_not_gpu(int index, const GpuUse& use = {});

/// Why the CPU is used where a GPU, or a driver for one, seems to be here: a clause with what to do. Empty:
/// there is none, or it can be used.
[[nodiscard]] std::string why_no_gpu_is_used();

/// GPUs of one kind whose kernels reach each other's memory: what ranks of this process can run on.
struct GpuGroup {
  std::string name;  ///< as the driver calls them
  std::vector<DeviceChoice> gpus;
};

/// The first GPU that this program can use, and those of the same name that have access to the memory of
/// all before them, both ways. Empty where none can be used. Initialises the driver: some 100 ms at the
/// first call.
[[nodiscard]] GpuGroup usable_gpus(const GpuUse& use = {});

/// A GPU of several that need not reach each other's memory, nor be alike.
struct SeparateGpu {
  DeviceChoice choice;
  std::string name;             ///< as the driver calls it
  std::int64_t free_bytes = 0;  ///< memory that it has left
};

/// The GPUs that this program can use with the kernels that the first of them gets. Opens each of them.
[[nodiscard]] std::vector<SeparateGpu> separate_gpus(const GpuUse& use = {});

/// GPUs that the driver has; 0 without a driver.
[[nodiscard]] int num_gpus();

/// What was found and what it will run: "NVIDIA GeForce RTX 4090 (compute capability 8.9, 25.4 GB): module
/// sm80". Of a GPU that is here.
[[nodiscard]] std::string start_text(const DeviceChoice& gpu);

/// What is to be said before its kernels are loaded: that the driver compiles them. Empty where the module
/// has machine code for it.
[[nodiscard]] std::string compilation_text(const DeviceChoice& gpu);

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
