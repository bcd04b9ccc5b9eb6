#include "device/profiled_device.h"

namespace baleen {
namespace {

/// Of a data sheet's bandwidth what a copy reaches: 4.25 of 4.8 TB/s on an H200
/// (bench/results/kernels-h200.csv).
constexpr double kCopyShare = 0.885;

}  // namespace

DeviceChoice device_like(const DeviceProfile& profile) {
  if (profile.is_cpu) return {};
  if (profile.capability_major == 0) return planned_gpu();
  return {&choose_architecture(gpu_architectures(), profile.name,
                               {profile.capability_major, profile.capability_minor}),
          0};
}

DeviceTraits traits_like(const DeviceProfile& profile) {
  const auto num_units = static_cast<int>(profile.num_units);
  DeviceTraits traits = device_traits(device_like(profile), num_units > 0 ? num_units : 1);
  if (profile.is_cpu) return traits;
  if (num_units > 0) traits.num_units = num_units;
  if (profile.shared_bytes_per_block > 0) traits.shared_bytes_per_block = profile.shared_bytes_per_block;
  if (profile.l2_bytes > 0) traits.l2_bytes = profile.l2_bytes;
  traits.rates.memory_bytes_per_second = kCopyShare * profile.memory_bytes_per_second;
  return traits;
}

}  // namespace baleen
