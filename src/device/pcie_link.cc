#include "device/pcie_link.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string>

namespace baleen {
namespace {

/// "16.0 GT/s PCIe": 4.
int generation_of(double transfers) {
  constexpr double kSpeeds[] = {2.5, 5, 8, 16, 32, 64};
  const auto found = std::ranges::find(kSpeeds, transfers);
  return found == std::end(kSpeeds) ? 0 : static_cast<int>(found - kSpeeds) + 1;
}

/// The number that a file begins with; 0 without one.
double number_in(const std::filesystem::path& path) {
  double number = 0;
  std::ifstream(path) >> number;
  return number;
}

}  // namespace

std::optional<PcieLink> pcie_link(std::string_view pci_address, const std::filesystem::path& root) {
  std::string name(pci_address);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::filesystem::path folder = root / "sys/bus/pci/devices" / name;
  const PcieLink link{.generation = generation_of(number_in(folder / "current_link_speed")),
                      .lanes = static_cast<int>(number_in(folder / "current_link_width")),
                      .most_generation = generation_of(number_in(folder / "max_link_speed")),
                      .most_lanes = static_cast<int>(number_in(folder / "max_link_width"))};
  if (link.generation == 0 || link.lanes == 0) return std::nullopt;
  return link;
}

}  // namespace baleen
