/// How fast the device is whose memory holds tensors.
#pragma once

namespace baleen {

/// What predictions of a kernel's time take from the device (ops/operation/kernel_time.h). Times of a unit's
/// own work stand with the kernels: they are an architecture's.
struct DeviceRates {
  double memory_bytes_per_second = 0;  ///< what a copy reaches; 0: not known, nothing waits for memory
  double launch_seconds = 0;           ///< a kernel with no work takes so long from first load to last store
};

}  // namespace baleen
