/// Devices as their makers describe them, for plans of machines that are not at hand.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace baleen {

struct DeviceProfile {
  std::string_view name;          ///< as on the command line
  std::string_view description;   ///< one line, for --help
  std::int64_t memory_bytes = 0;  ///< that programs can have
};

[[nodiscard]] std::span<const DeviceProfile> device_profiles();

/// Null when there is none of that name.
[[nodiscard]] const DeviceProfile* find_device_profile(std::string_view name);

}  // namespace baleen
