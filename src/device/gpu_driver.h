/// What the NVIDIA driver says of this machine's GPUs, asked without CUDA's toolkit: it is what the program
/// knows before it loads a module of kernels.
#pragma once

#include <string>
#include <vector>

#include "device/gpu_architecture.h"

namespace baleen {

struct DriverGpu {
  std::string name;  ///< "NVIDIA H200"
  ComputeCapability capability;
};

struct GpuDriver {
  std::vector<DriverGpu> gpus;
  std::string why_none;  ///< a clause; empty: there are GPUs
};

/// Initialises the driver at the first call, some 100 ms; later calls say the same.
[[nodiscard]] const GpuDriver& gpu_driver();

}  // namespace baleen
