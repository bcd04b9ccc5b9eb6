/// Devices that need not be here, as their profiles describe them.
#pragma once

#include "device/device_choice.h"
#include "hardware/device_profile.h"

namespace baleen {

/// What a simulated device is planned like: the CPU, or a GPU with the kernels that one of the profile's
/// compute capability gets. Of another maker's device: the registry's first row.
[[nodiscard]] DeviceChoice device_like(const DeviceProfile& profile);

/// Of that: what the row says of its GPUs, with the profile's units, shared memory, cache and bandwidth.
[[nodiscard]] DeviceTraits traits_like(const DeviceProfile& profile);

}  // namespace baleen
