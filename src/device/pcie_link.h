/// How a GPU is connected to the host, as Linux says it.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace baleen {

struct PcieLink {
  int generation = 0, lanes = 0;  ///< now: an idle GPU may have slowed its link down
  int most_generation = 0, most_lanes = 0;
};

/// Of the device at an address, "0000:01:00.0"; nothing where the system does not say. `root`: of /sys.
[[nodiscard]] std::optional<PcieLink> pcie_link(std::string_view pci_address,
                                                const std::filesystem::path& root = "/");

}  // namespace baleen
