/// Which processors are near which part of a machine's memory (NUMA).
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace baleen {

/// Processors of each memory node, as the system numbers them, ascending; only those the calling thread may
/// run on, and no nodes without any. Empty where the system does not say. `folder` has `node<N>/cpulist`.
std::vector<std::vector<int>> memory_nodes(const std::filesystem::path& folder = "/sys/devices/system/node");

/// Keeps the calling thread, and threads it starts later, on the nodes of `part`, one of `num_parts` that
/// share the nodes out in order: several parts on one node, or several nodes for one part. Then memory that
/// the part touches first lies near it. Does nothing with less than two nodes; a system that refuses leaves
/// the thread where it may run.
void stay_on_nodes(const std::vector<std::vector<int>>& nodes, std::int64_t part, std::int64_t num_parts);

}  // namespace baleen
