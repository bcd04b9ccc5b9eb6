/// Ranks that wait for each other, or agree on numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"

namespace baleen {

/// Returns when all of the group have called it: an exchange of a byte.
void meet_all(Communicator& communicator, const RankGroup& group);

/// Of each of `own` the largest that a rank of the group has; all of them call it with as many.
[[nodiscard]] std::vector<std::int64_t> largest_of_all(Communicator& communicator, const RankGroup& group,
                                                       const std::vector<std::int64_t>& own);

}  // namespace baleen
