/// Time of an operation and of a message on a device.
/// (source: simulation 4, 6)
///
///     t(op) = static + max( sum over formats M_f / (P_f e_f) + A / (P_s e_s),  bytes / (B e_m) )
///
/// Matrix and scalar time add up unless the profile says that they overlap. A format that the device lacks
/// runs at the rate of the next wider one it has.
#pragma once

#include <cstdint>
#include <string_view>

#include "hardware/device_profile.h"
#include "simulator/graph/op_graph.h"

namespace baleen {

/// What an operation's time consists of most.
enum class Bound : std::uint8_t { kMemory, kCompute, kLatency, kCommunication, kHostCopies };
inline constexpr std::size_t kNumBounds = 5;

/// "memory"
[[nodiscard]] std::string_view bound_name(Bound bound);

struct OpTime {
  double seconds = 0;
  double compute_seconds = 0;
  double memory_seconds = 0;
  double static_seconds = 0;
  double communication_seconds = 0;
  double host_copy_seconds = 0;  ///< what copies of experts on the host take, as far as nothing hides it
  Bound bound = Bound::kLatency;
};

class TimeModel {
 public:
  /// `graph`: operations are launched within a captured graph. `profile` outlives this.
  TimeModel(const DeviceProfile& profile, bool graph) : profile_(profile), graph_(graph) {}

  [[nodiscard]] OpTime time_of(const GraphOp& op) const;
  /// Of its backward, at the shares of the peaks that its forward reaches; nothing where it has none.
  [[nodiscard]] OpTime backward_time_of(const GraphOp& op) const;
  /// `operation` that sends it: messages of some have times of their own in the profile.
  [[nodiscard]] double collective_seconds(const RankMessage& collective,
                                          std::string_view operation = "") const;

 private:
  [[nodiscard]] OpTime operation_time(const GraphOp& op) const;
  /// Matrix rate for products in a format of this program.
  [[nodiscard]] double matrix_rate(MathFormat format) const;
  /// Of a group: the innermost level that spans it.
  [[nodiscard]] LinkLevel level_of(std::int64_t group_size) const;

  const DeviceProfile& profile_;
  bool graph_;
};

}  // namespace baleen
