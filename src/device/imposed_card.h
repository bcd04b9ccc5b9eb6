/// Traits of another card on the GPU that is here: kernels and choices run as they would on a card that
/// is not at hand. Clocks, bandwidth and caches stay those of the GPU.
#pragma once

#include <string>
#include <string_view>

#include "device/gpu_architecture.h"
#include "device/gpu_driver.h"
#include "hardware/device_profile.h"

namespace baleen {

/// The profile of an NVIDIA card that says what its blocks and units are. Throws `Error` with the list for
/// another name.
[[nodiscard]] const DeviceProfile& card_by_name(std::string_view name);

[[nodiscard]] ComputeCapability capability_of(const DeviceProfile& card);

/// Of `row`, with the card's units, shared memory, cache and bandwidth.
[[nodiscard]] DeviceTraits imposed_traits(const GpuArchitecture& row, const DeviceProfile& card);

/// Why a GPU cannot stand for the card, which has more of something. Empty: it can.
[[nodiscard]] std::string why_not_as_card(const DriverGpu& gpu, const DeviceProfile& card);

/// "rtx-3090: 82 multiprocessors, 99 KiB of shared memory a block, 6.3 MB of L2"
[[nodiscard]] std::string card_text(const DeviceProfile& card);

}  // namespace baleen
