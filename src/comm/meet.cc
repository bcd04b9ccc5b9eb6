#include "comm/meet.h"

namespace baleen {

void meet_all(Communicator& communicator, const RankGroup& group) {
  static_cast<void>(tell_all(communicator, group, std::byte{}));
}

}  // namespace baleen
