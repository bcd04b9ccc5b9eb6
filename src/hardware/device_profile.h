/// Devices as plain figures: what they can do at most, what share of it kernels reach, what a launch and a
/// message cost, and where each figure is from. JSON files in hardware/profiles/ are part of the program;
/// others are read from disk. (source: simulation 6)
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
  double bytes_per_second = 0;  ///< what one device sends, one way
  double latency_seconds = 0;   ///< what a message takes besides its bytes
  double efficiency = 1;        ///< share of the rate that long messages reach
  bool mesh = false;            ///< a link for each peer: a group of n uses (n - 1) of (size - 1)
};

/// Measured time of a message by the bytes that a rank sends over its links, by rising bytes.
struct MessagePoint {
  double bytes = 0;
  double seconds = 0;
};

/// What is known of one message: "all_reduce", or an operation that sends, "dispatch".
struct MessageTimes {
  std::vector<MessagePoint> points;
  std::int64_t num_ranks = 2;           ///< that the points were measured with
  double seconds_per_further_rank = 0;  ///< what each rank beyond those adds
  /// An all-reduce of at most so many bytes sends all of them to every rank; a larger one sends parts.
  double whole_up_to_bytes = 0;

  /// Linear between the points, with the slope of the last two beyond them, and never less than the first.
  [[nodiscard]] double seconds_of(double sent_bytes) const;
};

/// The host's cores, which compute experts where they lie. They share the host's memory with copies to the
/// device, so each is slower while both run.
struct HostCompute {
  double bytes_per_second = 0;                ///< weights read while no copies run; 0: the cores compute none
  double beside_copies_bytes_per_second = 0;  ///< weights read while copies run
  double copies_beside_bytes_per_second = 0;  ///< what copies by kernels reach meanwhile
  double row_seconds = 0;                     ///< for each further row of an expert
  double hand_over_seconds = 0;  ///< time until the cores have a layer's rows, the device its sums

  [[nodiscard]] bool any() const { return bytes_per_second > 0; }
};

/// Memory beyond the device's own, whose experts are copied to it when a step needs them, or computed by the
/// cores beside it: the host's, and what may lie beyond that, a disk.
struct MemoryLevel {
  std::string name;                    ///< "host", "disk"
  std::int64_t bytes = 0;              ///< that experts may take; 0: what they need
  double bytes_per_second = 0;         ///< copied by the copy engine, behind the layers before
  double kernel_bytes_per_second = 0;  ///< copied by kernels, when a step has chosen its experts
  HostCompute compute;                 ///< what the host's cores do
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
  double rows_per_tile = 0;      ///< rows that fill a tile, for the wave term; 0: none
  double heads_per_tile = 0;  ///< attention: fewer heads, or a part of so many, cost as much as all; 0: none
};

struct DeviceProfile {
  std::string name;         ///< as on the command line
  std::string description;  ///< one line
  bool is_cpu = false;      ///< runs the CPU's operations: float32 activations, weights from a map
  bool fuses =
      false;  ///< kernels are fused as this program's own are; otherwise one for each small operation
  bool from_data_sheet = false;  ///< no figure of it was measured; what no sheet says is assumed
  // NVIDIA's compute capability, 8.9; 0.0: another maker's device, or a CPU.
  int capability_major = 0;
  int capability_minor = 0;
  std::array<double, static_cast<std::size_t>(PeakFormat::kCount)>
      peak_flops{};  ///< per second; 0: it lacks the format
  double scalar_ops_per_second = 0;
  std::int64_t memory_bytes = 0;  ///< that programs can have
  double memory_bytes_per_second = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t num_units = 0;               ///< multiprocessors, cores
  std::int64_t shared_bytes_per_block = 0;  ///< most shared memory of a block of threads; 0: not said
  // The device's own connection to the host; a slot may have less. 0: it has none, or nothing is said.
  std::int64_t pcie_generation = 0;
  std::int64_t pcie_lanes = 0;
  EfficiencyPoint efficiency;  ///< what an operation gets of which nothing is known
  /// By operation; "sparse_attention/128" is of calls with that many heads.
  std::map<std::string, OperationEfficiency, std::less<>> operations;
  double graph_seconds = 0;  ///< what a kernel within a captured graph adds
  /// By which a captured kernel begins before its predecessor has ended, as far as the table of its operation
  /// counts that time.
  double graph_overlap_seconds = 0;
  double eager_seconds = 0;       ///< what a kernel adds that is launched by itself
  double collective_seconds = 0;  ///< what a message adds, beside its links' latencies
  std::vector<LinkLevel> links;
  /// By operation that sends ("dispatch") or kind ("all_reduce"); the others follow from `links`.
  std::map<std::string, MessageTimes, std::less<>> messages;
  std::vector<MemoryLevel> memory_levels;  ///< nearest first; none: weights lie in the device's memory alone
  /// Experts that a step chooses outside the device's memory are shared out between copies and the host's
  /// cores, where `memory_levels` says what these reach; otherwise all are copied.
  bool computes_on_host = false;
  /// The most that weights may take of the device's memory; 0: what is free.
  std::int64_t most_weight_bytes = 0;
  double host_seconds_per_step = 0;
  std::int64_t reserved_bytes = 0;             ///< contexts, graphs, libraries
  std::map<std::string, std::string> sources;  ///< figure to where it is from

  /// Of an operation that sends, or of a kind of message; null where nothing is said.
  [[nodiscard]] const MessageTimes* times_of_message(std::string_view operation, std::string_view kind) const;
  [[nodiscard]] double peak(PeakFormat format) const { return peak_flops[static_cast<std::size_t>(format)]; }
  /// Of an operation at so many rows: interpolated over the logarithm of rows, the device's own where nothing
  /// is said.
  [[nodiscard]] EfficiencyPoint efficiency_of(std::string_view operation, double num_rows) const;
};

/// "NVIDIA GeForce RTX 4090, 24 GB; data sheet, not measured"
[[nodiscard]] std::string listed_text(const DeviceProfile& profile);

/// What one lane of a PCIe link carries one way, in bytes a second, less its encoding. 0: no such generation.
[[nodiscard]] double pcie_lane_bytes_per_second(std::int64_t generation);

/// Of the program.
[[nodiscard]] std::span<const DeviceProfile> device_profiles();

/// Null when the program has none of that name; upper and lower case are the same.
[[nodiscard]] const DeviceProfile* find_device_profile(std::string_view name);

/// The datasheet's profile of a GPU by its driver's name, "NVIDIA H100 80GB HBM3": the longest name of a
/// profile all of whose words ("a100-40gb": two) it has. Null when the program has none, and for a GPU of a
/// laptop, which has less of everything than the card of its name.
[[nodiscard]] const DeviceProfile* find_profile_of_gpu(std::string_view driver_name);

/// The same, but with what this program's kernels were measured to reach ("h200-baleen" of "h200") where the
/// program has such a profile.
[[nodiscard]] const DeviceProfile* find_calibrated_profile_of_gpu(std::string_view driver_name);

/// One of the program, or the file that `name_or_path` names. Throws `Error`: with the list for an unknown
/// name, with field, expected and found for a malformed file.
[[nodiscard]] DeviceProfile load_device_profile(const std::string& name_or_path);

/// Throws `Error`; `label` names the text in messages.
[[nodiscard]] DeviceProfile parse_device_profile(std::string_view text, std::string_view label);

/// JSON text; `parse_device_profile` of it gives `profile` back.
[[nodiscard]] std::string profile_text(const DeviceProfile& profile);

}  // namespace baleen
