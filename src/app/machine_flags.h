/// Options that say what a machine has beside its device: memory, disk, connection, and what its cores do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hardware/device_profile.h"

namespace baleen {

class Options;

struct MachineFlags {
  std::int64_t host_memory_bytes = 0;  ///< 0: as much as experts need
  std::string pcie;                    ///< "4x16"; empty: as the profile says
  std::optional<double> link_gbps;
  std::optional<double> host_read_gbps;
  std::optional<double> disk_gbps;
  bool computes_on_host = true;

  void add_to(Options& command);
  /// Sets what was given. Throws `Error` where the profile knows no memory beyond the device's, or the host
  /// has too little.
  void apply(DeviceProfile& profile) const;
  /// Of the host's memory what routed experts may take; 0: what they need.
  [[nodiscard]] std::int64_t expert_bytes() const;

  /// Of the host's memory, what the system and this program keep beside experts.
  static constexpr std::int64_t kHostReserveBytes = 6'000'000'000;
};

}  // namespace baleen
