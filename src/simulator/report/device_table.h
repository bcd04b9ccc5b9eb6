/// A device's figures and where each is from.
#pragma once

#include "hardware/device_profile.h"
#include "plots/html_page.h"

namespace baleen {

[[nodiscard]] Table device_table(const DeviceProfile& device);

}  // namespace baleen
