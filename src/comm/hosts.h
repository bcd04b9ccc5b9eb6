/// On which hosts ranks are that are processes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "comm/communicator.h"

namespace baleen {

struct HostIdentity {
  std::array<char, 64> bytes{};
  bool operator==(const HostIdentity&) const = default;
};

/// Of the running kernel of the operating system: the same for all processes of a host, containers included.
/// Throws `Error` where it is not told.
[[nodiscard]] HostIdentity host_identity();

/// The host of each rank, in order of rank, hosts numbered by their first rank: 0, 0, 1, 1. All ranks of
/// `everybody` call it, each with its own host.
[[nodiscard]] std::vector<std::int64_t> hosts_of_ranks(Communicator& communicator, const RankGroup& everybody,
                                                       const HostIdentity& own);

}  // namespace baleen
