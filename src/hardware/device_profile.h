/// Devices as plain figures: what they can do at most, what share of it kernels reach, what a launch and a message cost,
/// and where each figure is from. JSON files in hardware/profiles/ are part of the program; others are read from disk.
/// (source: simulation 6)
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baleen {

enum class PeakFormat : std::uint8_t { kFp32, kTf32, kBf16, kFp8, kFp4, kInt8, kCount };

/// One level of a topology, from the innermost outwards.
struct LinkLevel {
  std::int64_t size = 1;        ///< devices that reach each other over it
  double bytes_per_second = 0;  ///< of one device, one way
  double latency_seconds = 0;   ///< of a message
  double efficiency = 1;        ///< share of the rate that long messages reach
  bool mesh = false;            ///< a link for each peer: a group of n uses (n - 1) of (size - 1)
};

/// Shares of the peaks that kernels of one operation reach at a number of rows; 0: not said.
struct EfficiencyPoint {
  double num_rows = 1;
  double compute = 0;
  double memory = 0;
  double scalar = 0;
  double static_seconds = -1;  ///< launch and drain; negative: the device's
};

/// What is known of one operation; points by rising number of rows.
struct OperationEfficiency {
  std::vector<EfficiencyPoint> points;
  bool overlaps_scalar = false;  ///< scalar work runs beside matrix work instead of after it
  double rows_per_tile = 0;      ///< of the wave term; 0: none
  double heads_per_tile = 0;  ///< attention: fewer heads, or a part of so many, cost as much as all; 0: none
};

struct DeviceProfile {
  std::string name;         ///< as on the command line
  std::string description;  ///< one line
  bool is_cpu = false;      ///< runs the CPU's operations: float32 activations, weights from a map
  bool fuses =
      false;  ///< kernels are fused as this program's own are; otherwise one for each small operation
  std::array<double, static_cast<std::size_t>(PeakFormat::kCount)>
      peak_flops{};  ///< per second; 0: it lacks the format
  double scalar_ops_per_second = 0;
  std::int64_t memory_bytes = 0;  ///< that programs can have
  double memory_bytes_per_second = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t num_units = 0;  ///< multiprocessors, cores
  EfficiencyPoint efficiency;  ///< of operations of which nothing is known
  /// By operation; "sparse_attention/128" is of calls with that many heads.
  std::map<std::string, OperationEfficiency, std::less<>> operations;
  double graph_seconds = 0;       ///< of a kernel within a captured graph
  double eager_seconds = 0;       ///< of one that is launched by itself
  double collective_seconds = 0;  ///< of a message, beside its links' latencies
  std::vector<LinkLevel> links;
  double host_seconds_per_step = 0;
  std::int64_t reserved_bytes = 0;             ///< contexts, graphs, libraries
  std::map<std::string, std::string> sources;  ///< figure to where it is from

  [[nodiscard]] double peak(PeakFormat format) const { return peak_flops[static_cast<std::size_t>(format)]; }
  /// Of an operation at so many rows: interpolated over the logarithm of rows, the device's own where nothing is said.
  [[nodiscard]] EfficiencyPoint efficiency_of(std::string_view operation, double num_rows) const;
};

/// Of the program.
[[nodiscard]] std::span<const DeviceProfile> device_profiles();

/// Null when the program has none of that name; upper and lower case are the same.
[[nodiscard]] const DeviceProfile* find_device_profile(std::string_view name);

/// One of the program, or the file that `name_or_path` names. Throws `Error`: with the list for an unknown name, with
/// field, expected and found for a malformed file.
[[nodiscard]] DeviceProfile load_device_profile(const std::string& name_or_path);

/// Throws `Error`; `label` names the text in messages.
[[nodiscard]] DeviceProfile parse_device_profile(std::string_view text, std::string_view label);

/// JSON text; `parse_device_profile` of it gives `profile` back.
[[nodiscard]] std::string profile_text(const DeviceProfile& profile);

}  // namespace baleen
