#include "hardware/device_profile.h"

#include <algorithm>
#include <array>

namespace baleen {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// Memory as nvidia-smi shows it.
constexpr std::array<DeviceProfile, 2> kProfiles{{
    {"h200", "NVIDIA H200 SXM, 141 GB", 143'771 * kMiB},
    {"h100", "NVIDIA H100 SXM, 80 GB", 81'559 * kMiB},
}};

}  // namespace

std::span<const DeviceProfile> device_profiles() { return kProfiles; }

const DeviceProfile* find_device_profile(std::string_view name) {
  const auto* found = std::ranges::find(kProfiles, name, &DeviceProfile::name);
  return found == kProfiles.end() ? nullptr : found;
}

}  // namespace baleen
