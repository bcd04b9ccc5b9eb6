#include "comm/meet.h"

namespace baleen {

void meet_all(Communicator& communicator, const RankGroup& group) {
  const std::vector<std::byte> sent(1);
  std::vector<std::byte> received(static_cast<std::size_t>(group.size()));
  const std::vector<std::span<const std::byte>> send(received.size(), sent);
  std::vector<std::span<std::byte>> receive;
  receive.reserve(received.size());
  for (std::byte& one : received) receive.emplace_back(&one, 1);
  communicator.exchange(group, send, receive);
}

}  // namespace baleen
