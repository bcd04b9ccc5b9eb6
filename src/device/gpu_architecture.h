/// Architectures of GPUs that there are kernels for: a row each, in one list (gpu_architectures.cc).
#pragma once

#include <compare>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "ops/operation/device_traits.h"

namespace baleen {

/// "9.0", as the driver says what a GPU is.
struct ComputeCapability {
  int major = 0;
  int minor = 0;
  auto operator<=>(const ComputeCapability&) const = default;
};

/// Of rows whose kernels run on all GPUs from the least capability on: the driver compiles them for new ones.
inline constexpr ComputeCapability kAnyLater{std::numeric_limits<int>::max(), 0};

/// A row. Its kernels are the folders of its name, `ops/*/sm90/`; their list is `ops/sm90/variants.h`; all of
/// them, and what a GPU is driven by, are the module `baleen_sm90.so`, which the program loads where a GPU
/// wants it. The row itself is part of the program, so GPUs can be planned for without module and GPU.
struct GpuArchitecture {
  std::string_view name;            ///< "sm90"
  ComputeCapability least, most{};  ///< that its kernels run on
  std::string_view gpus;            ///< some of them, for people: "H100, H200"
  /// What nvcc gets for its kernels; cmake/gpu_architectures.cmake reads them here.
  std::string_view compiler_flags;
  /// Of a GPU that is not here; what the driver knows of one that is replaces it.
  DeviceTraits traits;

  [[nodiscard]] bool runs_on(ComputeCapability capability) const {
    return capability >= least && capability <= most;
  }
  /// Whether its module has machine code for such a GPU, by the compiler's flags; otherwise the driver
  /// compiles the module's PTX.
  [[nodiscard]] bool has_machine_code(ComputeCapability capability) const;
};

/// All rows, best first: a GPU gets the first that runs on it.
[[nodiscard]] std::span<const GpuArchitecture> gpu_architectures();

/// The first row that runs on such a GPU, or the row `forced` by name where it does. Throws `Error` that
/// says what each row needs where there is none, and where no row has that name.
[[nodiscard]] const GpuArchitecture& choose_architecture(std::span<const GpuArchitecture> rows,
                                                         const std::string& gpu_name,
                                                         ComputeCapability capability,
                                                         std::string_view forced = {});

/// The row of that name. Throws `Error` that lists them where there is none.
[[nodiscard]] const GpuArchitecture& architecture_by_name(std::span<const GpuArchitecture> rows,
                                                          std::string_view name);

/// "sm90 (compute capability 9.0, as H100, H200; 227 KiB of shared memory a block, FP8 units, tensor copies)"
[[nodiscard]] std::string to_text(const GpuArchitecture& row);

}  // namespace baleen
