/// Rows of tables of n-grams that do not lie on the device (V4.1, engram/engram_store.h): how long a step
/// waits for them.
///
///     device, map   read like any memory                         what the operation costs
///     host          `engram_lookup` reads them over PCIe         bytes / link, beside its own work
///     disk          the step begins when all have come           rounds of reads x what a round takes
///
/// Of a prompt's rows no two are taken to be the same, and none to have come before the step.
#pragma once

#include <cstdint>
#include <optional>

#include "engram/engram_place.h"
#include "hardware/device_profile.h"
#include "model/config.h"
#include "simulator/cost/rank_memory.h"
#include "simulator/graph/op_graph.h"

namespace baleen {

struct OpTime;

class EngramReads {
 public:
  /// Nothing is read.
  EngramReads() = default;
  /// Of a rank with this memory.
  EngramReads(const ModelConfig& config, const RankMemory& memory, const DeviceProfile& device);

  /// Adds to `time`, of a lookup, what its rows take to come.
  void add_to(OpTime& time, const GraphOp& op) const;

 private:
  [[nodiscard]] double seconds(double num_rows) const;

  std::optional<EngramPlace> place_;  ///< none: no tables, or on the device
  double row_bytes_ = 0;
  double rows_of_token_ = 0;       ///< a token reads so many from one table
  double bytes_per_second_ = 0;    ///< the link's rate
  double seconds_of_a_round_ = 0;  ///< a disk's, for reads that are under way together
};

}  // namespace baleen
