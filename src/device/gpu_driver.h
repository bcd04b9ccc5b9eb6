/// What the NVIDIA driver says of this machine's GPUs, asked without CUDA's toolkit: it is what the program
/// knows before it loads a module of kernels. And what its failures mean, in sentences with what to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "device/gpu_architecture.h"

namespace baleen {

struct DriverGpu {
  std::string name;  ///< "NVIDIA H200"
  ComputeCapability capability;
  std::int64_t memory_bytes = 0;
  std::int64_t num_units = 0;
  std::int64_t shared_bytes_per_block = 0;  ///< the most that a block can have
  std::int64_t l2_bytes = 0;
  bool is_prohibited = false;  ///< its compute mode allows no program
  std::string pci_address;     ///< "0000:01:00.0", by which /sys knows it
};

/// Traits of `row` with what the driver says of a GPU in place of what the row says of a usual one.
[[nodiscard]] DeviceTraits traits_of(const GpuArchitecture& row, const DriverGpu& gpu);

struct GpuDriver {
  std::vector<DriverGpu> gpus;
  int cuda_version = 0;          ///< the newest CUDA that it knows: 12040 is 12.4
  std::string release;           ///< "550.54.14"; empty: the system does not say
  std::string why_none;          ///< a clause with what to do; empty: there are GPUs
  bool seems_to_be_here = true;  ///< something of a GPU or its driver was found
};

/// Where a driver is looked for.
struct DriverPlaces {
  std::string library = "libcuda.so.1";  ///< as the loader finds it
  std::filesystem::path root = "/";      ///< folder that has dev, proc and WSL's libraries
};

/// Initialises the driver.
[[nodiscard]] GpuDriver ask_driver(const DriverPlaces& places);

/// Of this machine. The first call takes some 100 ms; later calls say the same.
[[nodiscard]] const GpuDriver& gpu_driver();

/// "12.4"
[[nodiscard]] std::string cuda_version_text(int version);

/// Why a driver cannot run a module that CUDA's `toolkit`, "13.0", made: it is too old. Code that the driver
/// compiles needs one as new as the toolkit; machine code, one of the same major version. Empty: it can.
[[nodiscard]] std::string why_too_old(const GpuDriver& driver, std::string_view module,
                                      std::string_view toolkit, bool compiles);

/// What a failure to start a GPU means, by the status of the driver or the runtime, whose numbers are the
/// same. Empty: nothing more than the status says.
[[nodiscard]] std::string why_not_started(int status, std::string_view gpu);

/// What is to be said where memory runs out: how much of it others have. Empty where that is next to nothing.
[[nodiscard]] std::string taken_memory_text(std::int64_t total_bytes, std::int64_t free_bytes_at_start);

}  // namespace baleen
