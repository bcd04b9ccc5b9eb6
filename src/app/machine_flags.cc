#include "app/machine_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/option_ranges.h"
#include "app/options.h"
#include "base/error.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

constexpr RealRange kGigabytesPerSecondRange{.min = 0.001, .max = 1e5};
constexpr double kGB = 1e9;

struct Pcie {
  std::int64_t generation = 0;
  std::int64_t lanes = 0;

  [[nodiscard]] double bytes_per_second() const {
    return static_cast<double>(lanes) * pcie_lane_bytes_per_second(generation);
  }
};

/// "4x16"
Pcie read_pcie(const std::string& text) {
  const std::size_t cross = text.find('x');
  if (cross != std::string::npos) {
    const Result<std::int64_t> generation = read_whole(text.substr(0, cross), {1, 6});
    const Result<std::int64_t> lanes = read_whole(text.substr(cross + 1), {1, 16});
    if (generation && lanes) return {generation.value(), lanes.value()};
  }
  usage_error("--pcie: expected generation (1 to 6) and lanes (1 to 16), as 4x16; found \"{}\"",
              shortened_text(text, 40));
}

/// Copies over a link that is `ratio` times as quick.
void scale_link(MemoryLevel& level, double ratio) {
  level.bytes_per_second *= ratio;
  level.kernel_bytes_per_second *= ratio;
  level.compute.copies_beside_bytes_per_second *= ratio;
}

}  // namespace

void MachineFlags::add_to(Options& command) {
  command.bytes(
      "--host-memory", host_memory_bytes, kWeightBytesRange,
      "Memory of the host; all but 6 GB of it is for experts that do not fit on the device, and the "
      "rest of them stays on disk. 0: as much as they need");
  command.text("--pcie", pcie,
               "Generation and lanes of the slot, as 4x16, where it has less than the device");
  command.real("--host-link-gbps", link_gbps, kGigabytesPerSecondRange,
               "GB/s that copies from the host reach; otherwise the profile's");
  command.real("--host-read-gbps", host_read_gbps, kGigabytesPerSecondRange,
               "GB/s that the host's cores read from its memory; otherwise the profile's");
  command.real("--disk-gbps", disk_gbps, kGigabytesPerSecondRange, "GB/s that the checkpoint is read with");
  command.choice(
      "--host-experts", computes_on_host, {{"auto", true}, {"fetch", false}},
      "Experts that a step finds on the host are copied, or computed by its cores meanwhile where that "
      "is faster");
}

std::int64_t MachineFlags::expert_bytes() const {
  if (host_memory_bytes == 0) return 0;
  if (host_memory_bytes <= kHostReserveBytes) {
    fail("--host-memory: {:.1f} GB; expected more than the {:.0f} GB that the system and this program keep",
         static_cast<double>(host_memory_bytes) / kGB, static_cast<double>(kHostReserveBytes) / kGB);
  }
  return host_memory_bytes - kHostReserveBytes;
}

void MachineFlags::apply(DeviceProfile& profile) const {
  const std::int64_t bytes = expert_bytes();
  if (profile.memory_levels.empty()) {
    if (bytes > 0 || !pcie.empty() || link_gbps || host_read_gbps || disk_gbps) {
      fail(
          "--host-memory, --pcie, --host-link-gbps, --host-read-gbps and --disk-gbps: profile {} knows no "
          "memory "
          "beyond "
          "the device's; its memory_levels would say how quickly that is copied",
          profile.name);
    }
    return;
  }
  MemoryLevel& host = profile.memory_levels.front();
  if (bytes > 0) host.bytes = bytes;
  if (!pcie.empty()) {
    const Pcie own{profile.pcie_generation, profile.pcie_lanes};
    if (own.generation == 0) {
      fail("--pcie {}: profile {} does not say which PCIe it has; --host-link-gbps says what copies reach",
           pcie, profile.name);
    }
    const Pcie slot = read_pcie(pcie);
    const Pcie both{std::min(own.generation, slot.generation), std::min(own.lanes, slot.lanes)};
    scale_link(host, both.bytes_per_second() / own.bytes_per_second());
  }
  if (link_gbps) scale_link(host, *link_gbps * kGB / host.bytes_per_second);
  if (host_read_gbps && host.compute.any()) {
    const double ratio = *host_read_gbps * kGB / host.compute.bytes_per_second;
    host.compute.bytes_per_second *= ratio;
    host.compute.beside_copies_bytes_per_second *= ratio;
  }
  if (disk_gbps) {
    profile.memory_levels.resize(1);
    profile.memory_levels.push_back(
        {.name = "disk", .bytes_per_second = *disk_gbps * kGB, .kernel_bytes_per_second = *disk_gbps * kGB});
  }
  profile.computes_on_host = computes_on_host && profile.memory_levels.front().compute.any();
}

}  // namespace baleen
