/// Which GPU it is, in whatever process and under whatever number.
#pragma once

#include <array>

namespace baleen {

struct GpuIdentity {
  std::array<char, 16> bytes{};  ///< the driver's UUID
  bool operator==(const GpuIdentity&) const = default;
};

/// Of GPU `gpu` of this process.
[[nodiscard]] GpuIdentity gpu_identity(int gpu);

}  // namespace baleen
