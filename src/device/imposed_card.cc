#include "device/imposed_card.h"

#include <vector>

#include "base/error.h"
#include "base/quoted_text.h"
#include "device/profiled_device.h"

namespace baleen {

const DeviceProfile& card_by_name(std::string_view name) {
  const auto is_card = [](const DeviceProfile& profile) {
    return profile.capability_major > 0 && profile.shared_bytes_per_block > 0 && profile.num_units > 0;
  };
  if (const DeviceProfile* found = find_device_profile(name); found != nullptr && is_card(*found))
    return *found;
  std::vector<std::string_view> names;
  for (const DeviceProfile& profile : device_profiles())
    if (is_card(profile)) names.push_back(profile.name);
  fail("card {}: there is none of that name; there are {}", shortened_text(name), fmt::join(names, ", "));
}

ComputeCapability capability_of(const DeviceProfile& card) {
  return {static_cast<int>(card.capability_major), static_cast<int>(card.capability_minor)};
}

DeviceTraits imposed_traits(const GpuArchitecture& row, const DeviceProfile& card) {
  const DeviceTraits like = traits_like(card);
  DeviceTraits traits = row.traits;
  traits.num_units = like.num_units;
  traits.shared_bytes_per_block = like.shared_bytes_per_block;
  traits.l2_bytes = like.l2_bytes;
  traits.rates.memory_bytes_per_second = like.rates.memory_bytes_per_second;
  return traits;
}

std::string why_not_as_card(const DriverGpu& gpu, const DeviceProfile& card) {
  const auto lacks = [&](std::string_view what, std::int64_t has, std::int64_t wanted) {
    return fmt::format("card {}: has {} {}, {} has {}; impose a smaller card", card.name, wanted, what,
                       gpu.name, has);
  };
  if (gpu.num_units < card.num_units) return lacks("multiprocessors", gpu.num_units, card.num_units);
  if (gpu.shared_bytes_per_block < card.shared_bytes_per_block) {
    return lacks("KiB of shared memory a block", gpu.shared_bytes_per_block >> 10,
                 card.shared_bytes_per_block >> 10);
  }
  return "";
}

std::string card_text(const DeviceProfile& card) {
  return fmt::format("{}: {} multiprocessors, {} KiB of shared memory a block, {:.1f} MB of L2", card.name,
                     card.num_units, card.shared_bytes_per_block >> 10,
                     1e-6 * static_cast<double>(card.l2_bytes));
}

}  // namespace baleen
