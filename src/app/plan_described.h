/// What `plan` says of a model that is known and cannot be run yet: what its weights and its cache take, and
/// where its n-gram tables can lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model_files/inspect.h"

namespace baleen {

/// A memory for Engram's tables, and the fewest devices whose memories hold the weights beside it.
struct TablePlace {
  std::string name;               ///< "devices", "host", "disk"
  std::int64_t device_bytes = 0;  ///< weights on all devices together
  std::int64_t host_bytes = 0;    ///< pinned
  std::int64_t num_devices = 0;
};

/// Nearest first; nothing for a model without tables. `memory_bytes`: of one device, all of it.
[[nodiscard]] std::vector<TablePlace> table_places(const CheckpointReport& report, std::int64_t memory_bytes);

/// For people, or one JSON line.
[[nodiscard]] std::string described_plan_text(const CheckpointReport& report, const std::string& device,
                                              std::int64_t memory_bytes);
[[nodiscard]] std::string described_plan_json(const CheckpointReport& report, const std::string& device,
                                              std::int64_t memory_bytes);

}  // namespace baleen
