/// How a rank's device exchanges bytes with other ranks. One primitive, over which every collective is
/// written; a library that has better ones brings them as variants of the operations.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/rank_group.h"

namespace baleen {

class Communicator {
 public:
  virtual ~Communicator() = default;

  /// `send[i]` goes to member i of the group, which has as many bytes of room for it in its `receive` at this
  /// rank's place. All members call this, in the same order of calls; no array is both sent and received.
  /// Returns when all of `receive` is there and all of `send` may be overwritten. Throws `Error` when a rank
  /// is missing for too long, has failed, or sends another number of bytes.
  virtual void exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                        std::span<const std::span<std::byte>> receive) = 0;
};

}  // namespace baleen
