/// Ranks that wait for each other.
#pragma once

#include "comm/communicator.h"

namespace baleen {

/// Returns when all of the group have called it: an exchange of a byte.
void meet_all(Communicator& communicator, const RankGroup& group);

}  // namespace baleen
