/// Which device is meant, and what has to be known of a kind of device to plan memory for it where there is none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/step_shape.h"
#include "tensor/activations.h"

namespace baleen {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;  ///< of several CUDA devices

  bool operator==(const DeviceChoice&) const = default;
};

/// "cpu", "cuda", "cuda:1", or "auto": the first Hopper GPU that this program can use, the CPU if there is none. Throws
/// `Error` for anything else, and for a CUDA device that cannot be used, saying why.
[[nodiscard]] DeviceChoice device_from_name(std::string_view name);

/// "cpu", "cuda:0"
[[nodiscard]] std::string device_name(const DeviceChoice& device);

/// Of activations that hold BF16 values.
[[nodiscard]] constexpr ElementType activation_type(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? ElementType::kF32 : ElementType::kBf16;
}

/// Rows of a step of `num_rows`, padding included: small steps of a CUDA device are replays of captured graphs, which
/// exist for few sizes.
[[nodiscard]] std::int64_t padded_rows(DeviceKind kind, std::int64_t num_rows);

/// Whether this program has kernels, and so knows their scratch.
[[nodiscard]] bool built_with_cuda();

/// Scratch of the largest operation; 0 for CUDA where this program was built without.
[[nodiscard]] std::int64_t scratch_bytes(DeviceKind kind, const StepShape& shape, int num_threads);

/// What a CUDA device takes beside what is planned by name: its context, modules, and captured graphs.
inline constexpr std::int64_t kCudaOverheadBytes = std::int64_t{1} << 30;

}  // namespace baleen
